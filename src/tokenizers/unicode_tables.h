// The generated tables behind unicode.h; nothing else includes this. scripts/make_unicode_tables.py
// writes unicode_tables.cc from the behaviour of the reference library, so that no Unicode version
// of the system plays a part.
#pragma once

#include <cstdint>

namespace pergola::tokenizers::unicode_tables {

// What all code points of one kind share.
struct Record {
  uint8_t flags;            // UnicodeFlag bits of unicode.h
  uint8_t combining_class;  // canonical combining class
  uint8_t category;         // UnicodeCategory in the lower 5 bits, CategoryFlag bits of unicode.h
  uint8_t grapheme;         // GraphemeClass in the lower 4 bits, GraphemeFlag bits of unicode.h
  int32_t lower_delta;      // lower case minus the code point
};

// Full decomposition of a code point: `length` code points of the pool from `start` on.
struct Decomposition {
  uint32_t code_point;
  uint16_t start;
  uint16_t length;
};

struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t composed;
};

// record = kRecords[kBlocks[kBlockOf[c / 128] * 128 + c % 128]]; code points in blocks from
// kNumBlocks on are like those of the last block.
extern const Record kRecords[];
extern const uint32_t kNumBlocks;
extern const uint16_t kBlockOf[];
extern const uint16_t kBlocks[];

// Sorted by code point. Compatible lists only what differs from Canonical.
extern const uint32_t kNumCanonical;
extern const Decomposition kCanonical[];
extern const uint32_t kCanonicalPool[];
extern const uint32_t kNumCompatible;
extern const Decomposition kCompatible[];
extern const uint32_t kCompatiblePool[];

// Sorted by (first, second).
extern const uint32_t kNumCompositions;
extern const Composition kCompositions[];

}  // namespace pergola::tokenizers::unicode_tables
