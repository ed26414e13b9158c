#include "core/json_text.h"

#include <charconv>
#include <cmath>

namespace pergola {

std::string JsonString(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      json += "\\u00";
      json += kDigits[byte >> 4];
      json += kDigits[byte & 15];
    } else {
      json += c;
    }
  }
  return json + '"';
}

void AppendJsonFloat(float value, std::string* out) {
  if (!std::isfinite(value)) {
    *out += "null";
    return;
  }
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  out->append(text, static_cast<size_t>(end.ptr - text));
}

}  // namespace pergola
