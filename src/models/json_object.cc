#include "models/json_object.h"

#include <simdjson.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace pergola::models {
namespace {

constexpr int64_t kMaxFileBytes = 16 << 20;

Result<std::string> ReadText(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return NotFoundError(path + ": " + error.message());
  if (size > static_cast<uintmax_t>(kMaxFileBytes)) {
    return InvalidArgumentError(path + ": " + std::to_string(size) + " bytes, the limit is " +
                                std::to_string(kMaxFileBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    return DataLossError(path + ": cannot be read");
  }
  return text;
}

}  // namespace

// Elements point into the parser, which all objects of a document share.
struct JsonObject::Document {
  simdjson::dom::parser parser;
};

struct JsonObject::Impl {
  std::shared_ptr<Document> document;  // second owner: the objects nested in or around this one
  simdjson::dom::object object;

  std::optional<simdjson::dom::element> Find(std::string_view key) const {
    simdjson::dom::element element;
    if (object.at_key(key).get(element) != simdjson::SUCCESS || element.is_null()) {
      return std::nullopt;
    }
    return element;
  }
};

JsonObject::JsonObject(std::unique_ptr<Impl> impl, std::string name)
    : impl_(std::move(impl)), name_(std::move(name)) {}
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;
JsonObject::~JsonObject() = default;

Result<JsonObject> JsonObject::Parse(std::string_view json, std::string name) {
  auto document = std::make_shared<Document>();
  simdjson::dom::element root;
  const auto error = document->parser.parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return InvalidArgumentError(name + ": " + simdjson::error_message(error));
  }
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return InvalidArgumentError(name + ": not a JSON object");
  }
  return JsonObject(std::make_unique<Impl>(Impl{std::move(document), object}), std::move(name));
}

Result<JsonObject> JsonObject::Read(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return Parse(text, path);
}

Result<std::vector<JsonObject>> JsonObject::ReadArray(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  auto document = std::make_shared<Document>();
  simdjson::dom::element root;
  const auto error = document->parser.parse(text).get(root);
  if (error != simdjson::SUCCESS) {
    return InvalidArgumentError(path + ": " + simdjson::error_message(error));
  }
  simdjson::dom::array array;
  if (root.get(array) != simdjson::SUCCESS) {
    return InvalidArgumentError(path + ": not a JSON array");
  }
  std::vector<JsonObject> objects;
  for (const simdjson::dom::element element : array) {
    const std::string name = path + "[" + std::to_string(objects.size()) + "]";
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS) {
      return InvalidArgumentError(name + ": not a JSON object");
    }
    objects.push_back(JsonObject(std::make_unique<Impl>(Impl{document, object}), name));
  }
  return objects;
}

std::optional<int64_t> JsonObject::Int(std::string_view key) const {
  const auto element = impl_->Find(key);
  int64_t integer = 0;
  if (element && element->get(integer) == simdjson::SUCCESS) return integer;
  double number = 0;
  if (element && element->is_double() && element->get(number) == simdjson::SUCCESS &&
      number >= -9e15 && number <= 9e15 &&
      number == static_cast<double>(static_cast<int64_t>(number))) {
    return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

std::optional<double> JsonObject::Number(std::string_view key) const {
  const auto element = impl_->Find(key);
  double number = 0;
  if (element && element->get(number) == simdjson::SUCCESS) return number;
  return std::nullopt;
}

std::optional<bool> JsonObject::Bool(std::string_view key) const {
  const auto element = impl_->Find(key);
  bool value = false;
  if (element && element->get(value) == simdjson::SUCCESS) return value;
  return std::nullopt;
}

std::optional<std::string> JsonObject::String(std::string_view key) const {
  const auto element = impl_->Find(key);
  std::string_view value;
  if (element && element->get(value) == simdjson::SUCCESS) return std::string(value);
  return std::nullopt;
}

std::optional<std::vector<std::string>> JsonObject::Strings(std::string_view key) const {
  const auto element = impl_->Find(key);
  simdjson::dom::array array;
  if (!element || element->get(array) != simdjson::SUCCESS) return std::nullopt;
  std::vector<std::string> values;
  for (const simdjson::dom::element item : array) {
    std::string_view value;
    if (item.get(value) != simdjson::SUCCESS) return std::nullopt;
    values.emplace_back(value);
  }
  return values;
}

std::optional<std::vector<int64_t>> JsonObject::Ints(std::string_view key) const {
  const auto element = impl_->Find(key);
  simdjson::dom::array array;
  if (!element || element->get(array) != simdjson::SUCCESS) return std::nullopt;
  std::vector<int64_t> values;
  for (const simdjson::dom::element item : array) {
    int64_t value = 0;
    if (item.get(value) != simdjson::SUCCESS) return std::nullopt;
    values.push_back(value);
  }
  return values;
}

std::optional<JsonObject> JsonObject::Object(std::string_view key) const {
  const auto element = impl_->Find(key);
  simdjson::dom::object object;
  if (!element || element->get(object) != simdjson::SUCCESS) return std::nullopt;
  return JsonObject(std::make_unique<Impl>(Impl{impl_->document, object}),
                    name_ + "." + std::string(key));
}

std::map<std::string, std::string, std::less<>> JsonObject::StringMembers() const {
  std::map<std::string, std::string, std::less<>> members;
  for (const auto field : impl_->object) {
    std::string_view value;
    if (field.value.get(value) == simdjson::SUCCESS) members.emplace(field.key, value);
  }
  return members;
}

std::vector<std::string> JsonObject::Keys() const {
  std::vector<std::string> keys;
  for (const auto field : impl_->object) keys.emplace_back(field.key);
  return keys;
}

Result<int64_t> JsonObject::RequireInt(std::string_view key, int64_t min, int64_t max) const {
  const std::optional<int64_t> value = Int(key);
  const std::string place = name_ + ": '" + std::string(key) + "'";
  if (!value) return InvalidArgumentError(place + " is missing or no integer");
  if (*value < min || *value > max) {
    return InvalidArgumentError(place + " is " + std::to_string(*value) + ", allowed is " +
                                std::to_string(min) + " to " + std::to_string(max));
  }
  return *value;
}

}  // namespace pergola::models
