#include "tokenizers/byte_alphabet.h"

#include <array>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

struct Alphabet {
  std::array<char32_t, 256> letters{};
  std::array<int16_t, 0x144> bytes{};  // the last letter is U+0143
};

constexpr Alphabet kAlphabet = [] {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.bytes) byte = -1;
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t letter = printable ? byte : next++;
    alphabet.letters[byte] = letter;
    alphabet.bytes[letter] = static_cast<int16_t>(byte);
  }
  return alphabet;
}();

}  // namespace

char32_t ByteToAlphabet(uint8_t byte) { return kAlphabet.letters[byte]; }

int AlphabetToByte(char32_t code_point) {
  return code_point < kAlphabet.bytes.size() ? kAlphabet.bytes[code_point] : -1;
}

bool PieceToBytes(std::string_view piece, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t pos = 0; pos < piece.size();) {
    const int byte = AlphabetToByte(DecodeUtf8(piece, &pos));
    if (byte < 0) {
      bytes->resize(before);
      return false;
    }
    bytes->push_back(static_cast<char>(byte));
  }
  return true;
}

void MapBytes(NormalizedText* text, PieceList* pieces) {
  text->BeginRewrite();
  for (TextSpan& piece : pieces->spans) {
    text->SkipTo(piece.begin);
    const size_t begin = text->rewritten_size();
    for (size_t pos = piece.begin; pos < piece.end; ++pos) {
      const char byte = text->text()[pos];
      text->Put({ByteToAlphabet(static_cast<uint8_t>(byte)), IsUtf8Continuation(byte) ? 1 : 0});
    }
    piece = {begin, text->rewritten_size()};
  }
  text->EndRewrite();
}

}  // namespace pergola::tokenizers
