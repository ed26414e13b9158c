#include "formats/tensor_source.h"

#include <algorithm>

#include "formats/quoted.h"

namespace pergola::formats {
namespace {

template <typename T>
const T* As(const TensorSource& source, std::string_view key) {
  const auto found = source.metadata().find(key);
  return found == source.metadata().end() ? nullptr : std::get_if<T>(&found->second.value);
}

template <typename T>
std::optional<T> Copy(const T* value) {
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

std::string Where(const TensorSource& source) {
  const std::span<const std::string> files = source.files();
  if (files.empty()) return " in memory";
  const std::string more =
      files.size() == 1 ? "" : " or its " + std::to_string(files.size() - 1) + " other shards";
  return " in " + Quoted(files.front()) + more;
}

}  // namespace

Result<TensorView> TensorSource::Get(std::string_view name) const {
  if (const TensorInfo* info = Find(name)) return info->view;
  const std::span<const UnsupportedTensor> others = unsupported();
  const auto other = std::find_if(others.begin(), others.end(),
                                  [name](const UnsupportedTensor& t) { return t.name == name; });
  if (other == others.end()) {
    return NotFoundError("tensor " + Quoted(name) + ": not" + Where(*this));
  }
  return UnimplementedError("tensor " + Quoted(name) + " at offset " +
                            std::to_string(other->file_offset) + Where(*this) + ": " + other->type +
                            " not supported");
}

Result<TensorView> TensorSource::Get(std::string_view name, const Shape& expected) const {
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, Get(name));
  if (view.shape == expected) return view;
  return InvalidArgumentError("tensor " + Quoted(name) + Where(*this) + ": shape " +
                              view.shape.ToString() + ", expected " + expected.ToString());
}

std::optional<int64_t> TensorSource::GetInt(std::string_view key) const {
  return Copy(As<int64_t>(*this, key));
}
std::optional<double> TensorSource::GetFloat(std::string_view key) const {
  return Copy(As<double>(*this, key));
}
std::optional<bool> TensorSource::GetBool(std::string_view key) const {
  return Copy(As<bool>(*this, key));
}
std::optional<std::string_view> TensorSource::GetString(std::string_view key) const {
  return Copy(As<std::string_view>(*this, key));
}
const std::vector<std::string_view>* TensorSource::GetStrings(std::string_view key) const {
  return As<std::vector<std::string_view>>(*this, key);
}
const std::vector<int64_t>* TensorSource::GetInts(std::string_view key) const {
  return As<std::vector<int64_t>>(*this, key);
}
const std::vector<float>* TensorSource::GetFloats(std::string_view key) const {
  return As<std::vector<float>>(*this, key);
}

}  // namespace pergola::formats
