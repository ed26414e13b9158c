#include "core/short_float.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace pergola {
namespace {

std::string Text(float value) {
  std::array<char, kShortFloatBytes> buffer;
  return {buffer.data(), WriteShortFloat(value, buffer.data())};
}

std::string Standard(float value) {
  std::array<char, 64> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

// Each by itself and all in a row, which may be computed otherwise.
void ExpectStandard(const std::vector<float>& values) {
  std::string standard;
  for (const float value : values) {
    const std::string text = Text(value);
    ASSERT_EQ(text, Standard(value));
    ASSERT_LE(text.size(), static_cast<size_t>(kShortFloatBytes));
    standard += text + ",";
  }
  std::string row((values.size() + 1) * kShortFloatBytes, '\0');
  row.resize(static_cast<size_t>(WriteShortFloats(values, row.data()) - row.data()));
  ASSERT_TRUE(row == standard);
}

TEST(ShortFloatTest, IsWhatTheStandardLibraryWrites) {
  std::vector<float> values;
  for (const float value :
       {0.0f,  -0.0f,    1.0f,   -1.0f,       0.1f,         0.5f,       0.3333333f, 1e-4f,
        2e-4f, 1.25e-4f, 0.001f, 1000.0f,     1234.5f,      8191.9995f, 8192.0f,    1e-5f,
        1e20f, 3.4e38f,  1e-45f, 16777216.0f, 9.999999e-4f, 0.99999994f}) {
    values.push_back(value);
    values.push_back(-value);
  }
  ExpectStandard(values);
}

// All signs and exponents, with fractions of few bits, near powers of two and at random.
TEST(ShortFloatTest, IsWhatTheStandardLibraryWritesForEveryExponent) {
  std::mt19937 random(3);
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    const bool common = exponent >= 110 && exponent <= 142;
    std::vector<float> values;
    for (int trial = 0; trial < (common ? 40'000 : 200); ++trial) {
      uint32_t fraction = random() & 0x7FFFFF;
      if (trial < 24) fraction = trial == 23 ? 0 : 1u << trial;
      if (trial >= 24 && trial < 48) fraction = 0x7FFFFF - (1u << (trial - 24) >> 1);
      const auto value = std::bit_cast<float>((trial % 2 == 0 ? 0 : 1u << 31) | exponent << 23 |
                                              (fraction & 0x7FFFFF));
      values.push_back(value);
    }
    ExpectStandard(values);
  }
}

// Numbers of few decimal digits: the ends of what is short.
TEST(ShortFloatTest, FindsShortTexts) {
  std::vector<float> values;
  for (int thousandths = -200'000; thousandths <= 200'000; thousandths += 7) {
    values.push_back(static_cast<float>(thousandths) / 1000);
  }
  ExpectStandard(values);
}

// Rows of every length around the blocks that are computed at once, numbers of all kinds in all
// places of them.
TEST(ShortFloatTest, RowsOfAnyLength) {
  std::mt19937 random(5);
  std::vector<float> values;
  EXPECT_NO_FATAL_FAILURE(ExpectStandard(values));
  for (int i = 0; i < 100; ++i) {
    const std::array<float, 4> kinds = {
        std::bit_cast<float>(static_cast<uint32_t>(random() & 0x3FFFFFFF)), 0.25f, 0.0f,
        static_cast<float>(random() % 1000) / -1000};
    values.push_back(kinds[random() % kinds.size()]);
    ExpectStandard(values);
  }
}

}  // namespace
}  // namespace pergola
