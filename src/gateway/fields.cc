#include "gateway/fields.h"

#include <algorithm>

#include "core/check.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {

Fields::Fields(const JsonValue& object, std::initializer_list<std::string_view> names,
               std::string_view prefix)
    : names_(names), values_(names.size()), prefix_(prefix) {
  if (!object.is(JsonKind::kObject)) {
    const std::string what = prefix_.empty() ? "the body" : prefix_.substr(0, prefix_.size() - 1);
    Fail(what == "the body" ? "" : what,
         what + " is " + std::string(JsonKindName(object.kind())) + ", it must be an object");
    return;
  }
  std::vector<bool> seen(names_.size(), false);
  object.EachField([&](std::string_view key, JsonValue value) {
    const auto found = std::find(names_.begin(), names_.end(), key);
    if (found == names_.end()) return true;
    const size_t place = static_cast<size_t>(found - names_.begin());
    if (seen[place]) {
      Fail(key, prefix_ + std::string(key) + " is given twice");
      return false;
    }
    seen[place] = true;
    if (!value.is(JsonKind::kNull)) values_[place] = value;
    return true;
  });
}

std::optional<JsonValue> Fields::Get(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  PERGOLA_CHECK(found != names_.end());
  return values_[static_cast<size_t>(found - names_.begin())];
}

std::optional<JsonValue> Fields::GetOf(std::string_view name, JsonKind wanted,
                                       std::string_view described) {
  const std::optional<JsonValue> value = Get(name);
  if (!value || value->is(wanted)) return value;
  Fail(name, prefix_ + std::string(name) + " is " + std::string(JsonKindName(value->kind())) +
                 ", it must be " + std::string(described));
  return std::nullopt;
}

std::optional<bool> Fields::Bool(std::string_view name) {
  const auto value = GetOf(name, JsonKind::kBool, "true or false");
  if (!value) return std::nullopt;
  return value->boolean();
}

std::optional<int64_t> Fields::Integer(std::string_view name) {
  const auto value = GetOf(name, JsonKind::kInteger, "an integer");
  if (!value) return std::nullopt;
  return value->integer();
}

std::optional<std::string> Fields::String(std::string_view name) {
  const auto value = GetOf(name, JsonKind::kString, "a string");
  if (!value) return std::nullopt;
  return std::string(value->string());
}

std::optional<size_t> Fields::OneOf(std::string_view name,
                                    std::initializer_list<std::string_view> allowed) {
  const auto value = GetOf(name, JsonKind::kString, "a string");
  if (!value) return std::nullopt;
  const auto found = std::find(allowed.begin(), allowed.end(), value->string());
  if (found != allowed.end()) return static_cast<size_t>(found - allowed.begin());
  std::string message =
      prefix_ + std::string(name) + " is '" + Excerpt(value->string(), 60) + "', it must be one of";
  for (const std::string_view option : allowed) message.append(" '").append(option).append("'");
  Fail(name, std::move(message));
  return std::nullopt;
}

void Fields::Fail(std::string_view name, std::string message) {
  Fail(Failure::Invalid(name, std::move(message)));
}

void Fields::Fail(Failure failure) {
  if (failure_) return;
  if (!failure.param.empty())
    failure.param.insert(0, prefix_ == failure.param + "." ? "" : prefix_);
  failure_ = std::move(failure);
}

}  // namespace pergola::gateway
