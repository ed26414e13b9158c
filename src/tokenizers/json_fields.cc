#include "tokenizers/json_fields.h"

#include <simdjson.h>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

// False when the field is absent or null.
bool FindField(const JsonElement& object, const char* field, JsonElement* value) {
  return object[field].get(*value) == simdjson::SUCCESS && !value->is_null();
}

}  // namespace

Status JsonTypeError(const std::string& place, const char* field, const char* expected) {
  return InvalidArgumentError(place + ": field '" + field + "' is missing or not " + expected);
}

Status UnsupportedError(std::string_view kind, const std::string& place) {
  constexpr size_t kShown = 64;
  size_t size = std::min(kind.size(), kShown);
  while (size > 0 && size < kind.size() && IsUtf8Continuation(kind[size])) --size;
  return UnimplementedError("kind '" + std::string(kind.substr(0, size)) + "' at " + place +
                            " is not supported");
}

Result<std::string_view> JsonString(const JsonElement& object, const char* field,
                                    const std::string& place) {
  std::string_view value;
  if (object[field].get(value) != simdjson::SUCCESS) return JsonTypeError(place, field, "a string");
  return value;
}

Result<std::string_view> JsonString(const JsonElement& object, const char* field,
                                    const std::string& place, std::string_view default_value) {
  JsonElement value;
  if (!FindField(object, field, &value)) return default_value;
  return JsonString(object, field, place);
}

Result<bool> JsonBool(const JsonElement& object, const char* field, const std::string& place,
                      bool default_value) {
  JsonElement element;
  if (!FindField(object, field, &element)) return default_value;
  bool value = false;
  if (element.get(value) != simdjson::SUCCESS) return JsonTypeError(place, field, "true or false");
  return value;
}

Result<int64_t> JsonInt(const JsonElement& object, const char* field, const std::string& place) {
  int64_t value = 0;
  if (object[field].get(value) != simdjson::SUCCESS)
    return JsonTypeError(place, field, "an integer");
  return value;
}

}  // namespace pergola::tokenizers
