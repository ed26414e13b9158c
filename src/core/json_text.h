// JSON out, where no tree is built: pieces that are appended to a string.
#pragma once

#include <string>
#include <string_view>

namespace pergola {

// A JSON string literal with its quotes. Control characters are escaped, other bytes kept.
std::string JsonString(std::string_view text);

// Appends the shortest decimal that reads back as the same float; null for NaN and infinities.
void AppendJsonFloat(float value, std::string* out);

}  // namespace pergola
