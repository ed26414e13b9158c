// GPT-2's alphabet: one printable code point for each byte, so that byte-level vocabularies can be
// written as text ("Ġhello" is " hello").
//
//   std::string bytes;
//   if (PieceToBytes("\u0120hello", &bytes)) ...  // " hello"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizers/normalized_text.h"
#include "tokenizers/pieces.h"

namespace pergola::tokenizers {

// The code point that stands for `byte`: itself where that is printable in Latin 1, else one from
// U+0100 on.
char32_t ByteToAlphabet(uint8_t byte);
// The byte that `code_point` stands for, or -1.
int AlphabetToByte(char32_t code_point);

// Appends the bytes that `piece` stands for; false, and nothing is appended, when a code point is
// not in the alphabet.
bool PieceToBytes(std::string_view piece, std::string* bytes);

// Every byte of the pieces becomes its code point; those of one old code point share its place.
// For models that do not read bytes themselves.
void MapBytes(NormalizedText* text, PieceList* pieces);

}  // namespace pergola::tokenizers
