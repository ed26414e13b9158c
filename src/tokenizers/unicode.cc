#include "tokenizers/unicode.h"

#include <algorithm>
#include <cstring>

namespace pergola::tokenizers {
namespace {

using unicode_tables::Composition;
using unicode_tables::Decomposition;

constexpr uint32_t kHangulBase = 0xAC00;
constexpr uint32_t kLeadBase = 0x1100;
constexpr uint32_t kVowelBase = 0x1161;
constexpr uint32_t kTrailBase = 0x11A7;
constexpr uint32_t kNumLeads = 19;
constexpr uint32_t kNumVowels = 21;
constexpr uint32_t kNumTrails = 28;
constexpr uint32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

// Length of the well-formed sequence at `bytes`, 0 when there is none.
size_t SequenceLength(const uint8_t* bytes, size_t size) {
  const uint8_t lead = bytes[0];
  const auto continues = [&](size_t i) { return (bytes[i] & 0xC0) == 0x80; };
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (lead < 0xE0) return size >= 2 && continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (size < 3 || !continues(1) || !continues(2)) return 0;
    if (lead == 0xE0 && bytes[1] < 0xA0) return 0;  // overlong
    if (lead == 0xED && bytes[1] > 0x9F) return 0;  // surrogates
    return 3;
  }
  if (size < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
  if (lead == 0xF0 && bytes[1] < 0x90) return 0;  // overlong
  if (lead == 0xF4 && bytes[1] > 0x8F) return 0;  // above U+10FFFF
  return 4;
}

std::span<const uint32_t> FindDecomposition(uint32_t code_point, const Decomposition* table,
                                            uint32_t size, const uint32_t* pool) {
  const Decomposition* end = table + size;
  const Decomposition* found = std::lower_bound(
      table, end, code_point,
      [](const Decomposition& entry, uint32_t wanted) { return entry.code_point < wanted; });
  if (found == end || found->code_point != code_point) return {};
  return {pool + found->start, found->length};
}

}  // namespace

size_t FindInvalidUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  size_t pos = 0;
  while (pos < size) {
    while (size - pos >= 32) {
      uint64_t words[4];
      std::memcpy(words, bytes + pos, sizeof(words));
      if (((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u) != 0) break;
      pos += sizeof(words);
    }
    // One block with something else than ASCII, or the tail.
    const size_t block_end = std::min(size, pos + 32);
    while (pos < block_end) {
      const size_t length = SequenceLength(bytes + pos, size - pos);
      if (length == 0) return pos;
      pos += length;
    }
  }
  return kValidUtf8;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  while (true) {
    const size_t bad = FindInvalidUtf8(bytes);
    if (bad == kValidUtf8) return text.append(bytes);
    text.append(bytes.substr(0, bad)).append("\uFFFD");
    bytes.remove_prefix(bad);
    // The longest prefix that some continuation would make well-formed, at least one byte.
    const size_t length = Utf8Length(bytes[0]);
    size_t kept = 1;
    for (size_t size = std::min(length - 1, bytes.size()); size > 1 && kept == 1; --size) {
      std::string completed(bytes.substr(0, size));
      for (const char last : {'\x80', '\xBF'}) {
        completed.resize(size);
        completed.append(length - size, last);
        if (FindInvalidUtf8(completed) == kValidUtf8) kept = size;
      }
    }
    bytes.remove_prefix(kept);
  }
}

size_t EncodeUtf8(char32_t code_point, char* out) {
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = static_cast<char>(0xC0 | code_point >> 6);
    out[1] = static_cast<char>(0x80 | (code_point & 0x3F));
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = static_cast<char>(0xE0 | code_point >> 12);
    out[1] = static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    out[2] = static_cast<char>(0x80 | (code_point & 0x3F));
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | code_point >> 18);
  out[1] = static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
  out[2] = static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
  out[3] = static_cast<char>(0x80 | (code_point & 0x3F));
  return 4;
}

void AppendUtf8(char32_t code_point, std::string* out) {
  char bytes[4];
  out->append(bytes, EncodeUtf8(code_point, bytes));
}

bool IsCjkIdeograph(char32_t code_point) {
  struct Block {
    char32_t first;
    char32_t last;
  };
  static constexpr Block kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                      {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  if (code_point < 0x3400) return false;
  return std::any_of(std::begin(kBlocks), std::end(kBlocks), [&](const Block& block) {
    return block.first <= code_point && code_point <= block.last;
  });
}

std::span<const uint32_t> Decompose(char32_t code_point, DecompositionKind kind,
                                    uint32_t (&scratch)[3]) {
  if (code_point - kHangulBase < kNumSyllables) {
    const uint32_t syllable = code_point - kHangulBase;
    scratch[0] = kLeadBase + syllable / (kNumVowels * kNumTrails);
    scratch[1] = kVowelBase + syllable / kNumTrails % kNumVowels;
    scratch[2] = kTrailBase + syllable % kNumTrails;
    return {scratch, scratch[2] == kTrailBase ? size_t{2} : size_t{3}};
  }
  const uint8_t flags = UnicodeRecord(code_point).flags;
  if (kind == DecompositionKind::kCompatible) {
    if ((flags & kDecomposesCompatibly) == 0) return {};
    const auto found =
        FindDecomposition(code_point, unicode_tables::kCompatible, unicode_tables::kNumCompatible,
                          unicode_tables::kCompatiblePool);
    if (!found.empty()) return found;
  }
  if ((flags & kDecomposes) == 0) return {};
  return FindDecomposition(code_point, unicode_tables::kCanonical, unicode_tables::kNumCanonical,
                           unicode_tables::kCanonicalPool);
}

char32_t Compose(char32_t first, char32_t second) {
  if (first - kLeadBase < kNumLeads && second - kVowelBase < kNumVowels) {
    return kHangulBase + ((first - kLeadBase) * kNumVowels + (second - kVowelBase)) * kNumTrails;
  }
  if (first - kHangulBase < kNumSyllables && (first - kHangulBase) % kNumTrails == 0 &&
      second - (kTrailBase + 1) < kNumTrails - 1) {
    return first + (second - kTrailBase);
  }
  const Composition* table = unicode_tables::kCompositions;
  const Composition* end = table + unicode_tables::kNumCompositions;
  const Composition* found = std::lower_bound(
      table, end, std::pair(first, second), [](const Composition& entry, auto key) {
        return std::pair<char32_t, char32_t>(entry.first, entry.second) < key;
      });
  if (found == end || found->first != first || found->second != second) return 0;
  return found->composed;
}

size_t ToLower(char32_t code_point, char32_t (&out)[2]) {
  if (code_point == 0x130) {  // the only one whose lower case is longer
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = code_point + static_cast<char32_t>(UnicodeRecord(code_point).lower_delta);
  return 1;
}

}  // namespace pergola::tokenizers
