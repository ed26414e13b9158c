#include "grid/json_text.h"

namespace pergola::grid {

std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    if (static_cast<unsigned char>(letter) >= 0x20) out += letter;
  }
  return out + "\"";
}

}  // namespace pergola::grid
