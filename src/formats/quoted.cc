#include "formats/quoted.h"

#include <simdjson.h>

namespace pergola::formats {

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  constexpr char kHex[] = "0123456789abcdef";
  const bool is_cut = text.size() > kMaxBytes;
  if (is_cut) {
    size_t end = kMaxBytes;
    // Back to the start of a character, at most the three bytes a UTF-8 sequence can continue.
    for (int back = 0; back < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; ++back) {
      --end;
    }
    text = text.substr(0, end);
  }
  const bool is_utf8 = simdjson::validate_utf8(text.data(), text.size());
  std::string quoted = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || (byte > 0x7F && !is_utf8)) {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + (is_cut ? "...'" : "'");
}

}  // namespace pergola::formats
