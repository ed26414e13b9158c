// Fields of a JSON object with their types checked; errors name the place. For the loaders of
// tokenizer.json only: simdjson's own headers stay in the .cc files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace simdjson::dom {
class element;
}  // namespace simdjson::dom

namespace pergola::tokenizers {

using JsonElement = simdjson::dom::element;

// `place` is where the object stands ("model", "decoder.decoders[2]"). A field that is absent or
// null has its default, or is an error where there is none; a wrong type is INVALID_ARGUMENT.
Result<std::string_view> JsonString(const JsonElement& object, const char* field,
                                    const std::string& place);
Result<std::string_view> JsonString(const JsonElement& object, const char* field,
                                    const std::string& place, std::string_view default_value);
Result<bool> JsonBool(const JsonElement& object, const char* field, const std::string& place,
                      bool default_value);
Result<int64_t> JsonInt(const JsonElement& object, const char* field, const std::string& place);

// "kind 'Precompiled' at normalizer is not supported".
Status UnsupportedError(std::string_view kind, const std::string& place);
Status JsonTypeError(const std::string& place, const char* field, const char* expected);

}  // namespace pergola::tokenizers
