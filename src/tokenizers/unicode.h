// Code points: UTF-8, categories, case, decomposition, as the reference library's parts see them.
//
//   size_t pos = 0;
//   while (pos < text.size()) Use(DecodeUtf8(text, &pos));
//
// The categories answer what tokenizers ask ("is this punctuation for BERT?") and follow the
// Unicode version that the corresponding part of the Hugging Face library carries, not one version
// throughout. Not a general Unicode library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tokenizers/unicode_tables.h"

namespace pergola::tokenizers {

inline constexpr size_t kValidUtf8 = static_cast<size_t>(-1);

// Offset of the first byte that does not belong to a well-formed sequence (overlong forms,
// surrogates and code points above U+10FFFF are ill-formed), or kValidUtf8. About 10 GB/s on ASCII.
size_t FindInvalidUtf8(std::string_view text);

// Every ill-formed sequence, as long as it might have become a well-formed one, becomes U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// The code point at text[*pos], which must start a well-formed sequence; moves *pos behind it.
inline char32_t DecodeUtf8(std::string_view text, size_t* pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[*pos + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    *pos += 1;
    return lead;
  }
  char32_t code_point;
  if (lead < 0xE0) {
    code_point = (lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
    *pos += 2;
  } else if (lead < 0xF0) {
    code_point = (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    *pos += 3;
  } else {
    code_point =
        (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    *pos += 4;
  }
  return code_point;
}

// Bytes of the sequence that `lead` starts.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool IsUtf8Continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// Start of the sequence that ends before `pos` (> 0).
inline size_t PreviousUtf8(std::string_view text, size_t pos) {
  do {
    --pos;
  } while (pos > 0 && IsUtf8Continuation(text[pos]));
  return pos;
}

// Writes the sequence of `code_point` to `out` (4 bytes) and returns its length.
size_t EncodeUtf8(char32_t code_point, char* out);
void AppendUtf8(char32_t code_point, std::string* out);

// Bits of Record::flags; scripts/make_unicode_tables.py has the same list.
enum UnicodeFlag : uint8_t {
  kMarkNonspacing = 1,  // what BertNormalizer's strip_accents removes after decomposition
  kMark = 2,            // what StripAccents removes
  kPunctuation = 4,     // what BertPreTokenizer isolates
  kOther = 8,           // controls, formats, private use
  kWhitespace = 16,     // White_Space
  kWord = 32,           // \w
  kDecomposes = 64,
  kDecomposesCompatibly = 128,  // by NFKD, also where it is the same as by NFD
};

// General categories as the reference library's regular expressions see them, in groups.
enum UnicodeCategory : uint8_t {
  kCategoryCn,
  kCategoryCc,
  kCategoryCf,
  kCategoryCo,  // other
  kCategoryZs,
  kCategoryZl,
  kCategoryZp,  // separators
  kCategoryLu,
  kCategoryLl,
  kCategoryLt,
  kCategoryLm,
  kCategoryLo,  // letters
  kCategoryMn,
  kCategoryMc,
  kCategoryMe,  // marks
  kCategoryNd,
  kCategoryNl,
  kCategoryNo,  // numbers
  kCategoryPc,
  kCategoryPd,
  kCategoryPs,
  kCategoryPe,
  kCategoryPi,
  kCategoryPf,  // punctuation
  kCategoryPo,
  kCategorySm,
  kCategorySc,
  kCategorySk,
  kCategorySo,  // symbols
};

// Beside the category in Record::category.
enum CategoryFlag : uint8_t {
  kRegexSpace = 32,   // \s of regular expressions
  kNumeric = 64,      // what Digits isolates
  kNfcChanges = 128,  // by NFC, alone or behind something; else inert but for the order of marks
};

// For extended grapheme clusters.
enum GraphemeClass : uint8_t {
  kGraphemeOther,
  kGraphemeControl,
  kGraphemeExtend,
  kGraphemeZwj,
  kGraphemeSpacingMark,
  kGraphemePrepend,
  kGraphemeRegional,
  kGraphemeLead,
  kGraphemeVowel,
  kGraphemeTrail,
  kGraphemeLv,
  kGraphemeLvt,
  kGraphemePictograph,
};

// Beside the class in Record::grapheme.
enum GraphemeFlag : uint8_t {
  kConjunctConsonant = 16,
  kConjunctLinker = 32,
  kConjunctExtend = 48,  // mask of the three
  kNfkcChanges = 64,     // as kNfcChanges
};

inline const unicode_tables::Record& UnicodeRecord(char32_t code_point) {
  const uint32_t block = code_point / 128;
  const uint32_t last = unicode_tables::kNumBlocks - 1;
  const uint32_t row = unicode_tables::kBlockOf[block < last ? block : last];
  return unicode_tables::kRecords[unicode_tables::kBlocks[row * 128 + code_point % 128]];
}

inline bool HasFlag(char32_t code_point, UnicodeFlag flag) {
  return (UnicodeRecord(code_point).flags & flag) != 0;
}

inline UnicodeCategory CategoryOf(char32_t code_point) {
  return static_cast<UnicodeCategory>(UnicodeRecord(code_point).category & 31);
}

// Blocks that BertNormalizer surrounds with spaces.
bool IsCjkIdeograph(char32_t code_point);

inline bool IsHangulSyllable(char32_t code_point) {
  return code_point >= 0xAC00 && code_point <= 0xD7A3;
}

enum class DecompositionKind { kCanonical, kCompatible };

// Full decomposition, at most 18 code points; empty when the code point stays as it is. Hangul
// syllables are computed into `scratch`, all else is a view of the tables.
std::span<const uint32_t> Decompose(char32_t code_point, DecompositionKind kind,
                                    uint32_t (&scratch)[3]);

// The canonical composition of two code points, or 0.
char32_t Compose(char32_t first, char32_t second);

// Full lower case, code point by code point (no context: a final sigma is a sigma). One code point
// except for U+0130, which has two. Returns how many were written.
size_t ToLower(char32_t code_point, char32_t (&out)[2]);

}  // namespace pergola::tokenizers
