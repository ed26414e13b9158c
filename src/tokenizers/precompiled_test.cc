#include "tokenizers/precompiled.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace pergola::tokenizers {
namespace {

// A map of single ASCII characters: unit 0 is the root, whose child for c is unit c; its value lies
// at unit 128 + c.
std::string SmallMap(std::vector<std::pair<char, uint32_t>> rules, std::string_view replacements) {
  std::vector<uint32_t> units(256);
  for (const auto& [c, place] : rules) {
    const auto label = static_cast<uint32_t>(c);
    units[label] = label | 1u << 8 | 128u << 10;
    units[label ^ 128] = place;
  }
  const auto size = static_cast<uint32_t>(units.size() * 4);
  std::string bytes(4 + size, '\0');
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes.append(replacements);
}

std::string Apply(const Normalizer& normalizer, std::string_view text) {
  NormalizedText normalized;
  normalized.Assign(text, 0, true);
  normalizer.Apply(&normalized);
  return std::string(normalized.text());
}

TEST(PrecompiledTest, ReplacesClustersByTheRuleForTheirStart) {
  const auto normalizer =
      MakePrecompiled(SmallMap({{'a', 0}, {'b', 2}}, std::string_view("X\0\0", 3)));
  ASSERT_TRUE(normalizer.ok()) << normalizer.status().ToString();
  EXPECT_EQ(Apply(**normalizer, "cab c"), "cX c");
  // A short cluster goes as a whole, a long one character by character.
  EXPECT_EQ(Apply(**normalizer, "a\u0301"), "X");
  EXPECT_EQ(Apply(**normalizer, "a\u0301\u0301\u0301"), "X\u0301\u0301\u0301");
}

TEST(PrecompiledTest, WhatIsRemovedFirstShiftsAllPlaces) {
  const auto normalizer = MakePrecompiled(SmallMap({{'b', 0}}, std::string_view("\0", 1)));
  ASSERT_TRUE(normalizer.ok());
  EXPECT_TRUE((*normalizer)->ShiftsOffsets("bc"));
  EXPECT_FALSE((*normalizer)->ShiftsOffsets("cb"));
  NormalizedText text;
  text.Assign("bcd", 0, true);
  (*normalizer)->Apply(&text);
  EXPECT_EQ(text.text(), "cd");
  EXPECT_EQ(text.Original(0, 1), (ByteSpan{0, 1}));
}

TEST(PrecompiledTest, RefusesMapsWhoseSizesDoNotFit) {
  const std::string good = SmallMap({{'a', 0}}, "X");
  EXPECT_TRUE(MakePrecompiled(good).ok());
  std::string misfit = good;
  misfit[0] = 2;  // not a multiple of four
  for (const std::string& bad :
       {std::string(), good.substr(0, 3), good.substr(0, 500), misfit, good + "\xff"}) {
    EXPECT_EQ(MakePrecompiled(bad).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(PrecompiledTest, IgnoresRulesThatPointNowhere) {
  const auto normalizer = MakePrecompiled(SmallMap({{'a', 1000}, {'b', 1}}, "\u00e9"));
  ASSERT_TRUE(normalizer.ok());
  EXPECT_EQ(Apply(**normalizer, "abc"), "abc");
}

}  // namespace
}  // namespace pergola::tokenizers
