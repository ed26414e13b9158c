#include "gateway/short_float.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

namespace pergola::gateway {
namespace {

std::string Text(float value) {
  std::array<char, kShortFloatBytes> buffer;
  return {buffer.data(), WriteShortFloat(value, buffer.data())};
}

std::string Standard(float value) {
  std::array<char, 64> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

TEST(ShortFloatTest, IsWhatTheStandardLibraryWrites) {
  for (const float value :
       {0.0f,  -0.0f,    1.0f,   -1.0f,       0.1f,         0.5f,       0.3333333f, 1e-4f,
        2e-4f, 1.25e-4f, 0.001f, 1000.0f,     1234.5f,      8191.9995f, 8192.0f,    1e-5f,
        1e20f, 3.4e38f,  1e-45f, 16777216.0f, 9.999999e-4f, 0.99999994f}) {
    EXPECT_EQ(Text(value), Standard(value));
    EXPECT_EQ(Text(-value), Standard(-value));
  }
}

// All signs and exponents, with fractions of few bits, near powers of two and at random.
TEST(ShortFloatTest, IsWhatTheStandardLibraryWritesForEveryExponent) {
  std::mt19937 random(3);
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    const bool common = exponent >= 110 && exponent <= 142;
    for (int trial = 0; trial < (common ? 40'000 : 200); ++trial) {
      uint32_t fraction = random() & 0x7FFFFF;
      if (trial < 24) fraction = trial == 23 ? 0 : 1u << trial;
      if (trial >= 24 && trial < 48) fraction = 0x7FFFFF - (1u << (trial - 24) >> 1);
      const auto value = std::bit_cast<float>((trial % 2 == 0 ? 0 : 1u << 31) | exponent << 23 |
                                              (fraction & 0x7FFFFF));
      const std::string text = Text(value);
      ASSERT_EQ(text, Standard(value));
      ASSERT_LE(text.size(), static_cast<size_t>(kShortFloatBytes));
    }
  }
}

// Numbers of few decimal digits: the ends of what is short.
TEST(ShortFloatTest, FindsShortTexts) {
  for (int thousandths = -200'000; thousandths <= 200'000; thousandths += 7) {
    const float value = static_cast<float>(thousandths) / 1000;
    ASSERT_EQ(Text(value), Standard(value));
  }
}

}  // namespace
}  // namespace pergola::gateway
