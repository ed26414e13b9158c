#include "kernels/dequantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace pergola::kernels {
namespace {

std::vector<char> ReadGolden(std::string_view name) {
  const std::string path = std::string(PERGOLA_TEST_DATA "/golden/quant/") + std::string(name);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> Dequantise(DType dtype, const void* bytes, int64_t elements) {
  std::vector<float> out(static_cast<size_t>(elements));
  DequantiseRow(dtype, static_cast<const std::byte*>(bytes), elements, out.data());
  return out;
}

class DequantiseGoldenTest : public testing::TestWithParam<DType> {};

TEST_P(DequantiseGoldenTest, BitsEqualThePythonReference) {
  const std::string name(DTypeName(GetParam()));
  const std::vector<char> blocks = ReadGolden(name + ".blocks");
  const std::vector<char> expected = ReadGolden(name + ".f32");
  const auto elements = static_cast<int64_t>(expected.size() / sizeof(float));
  ASSERT_GE(elements, 16 * BlockElements(GetParam()));
  ASSERT_EQ(RowBytes(GetParam(), elements), static_cast<int64_t>(blocks.size()));
  // From an odd address: a row may have any alignment.
  std::vector<char> unaligned(blocks.size() + 1);
  std::copy(blocks.begin(), blocks.end(), unaligned.begin() + 1);
  const std::vector<float> values = Dequantise(GetParam(), unaligned.data() + 1, elements);
  for (int64_t i = 0; i < elements; ++i) {
    uint32_t bits;
    std::memcpy(&bits, expected.data() + static_cast<size_t>(i) * sizeof(bits), sizeof(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(values[static_cast<size_t>(i)]), bits)
        << name << " value " << i % BlockElements(GetParam()) << " of block "
        << i / BlockElements(GetParam());
  }
}

std::string NameOfParam(const testing::TestParamInfo<DType>& type) {
  return std::string(DTypeName(type.param));
}

INSTANTIATE_TEST_SUITE_P(AllQuantised, DequantiseGoldenTest,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                         DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL),
                         NameOfParam);

TEST(DequantiseTest, WidensEveryHalfExactly) {
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const std::vector<float> values = Dequantise(DType::kF16, halves.data(), 1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const int mantissa = static_cast<int>(i & 1023);
    const bool is_negative = i >> 15 == 1;
    EXPECT_EQ(std::signbit(values[i]), is_negative) << i;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
      continue;
    }
    double expected = exponent == 31  ? INFINITY
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
    if (is_negative) expected = -expected;
    ASSERT_EQ(static_cast<double>(values[i]), expected) << i;
  }
}

TEST(DequantiseTest, WidensEveryBrainFloatByItsBits) {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const std::vector<float> values = Dequantise(DType::kBF16, bits.data(), 1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), static_cast<uint32_t>(i) << 16);
  }
}

TEST(DequantiseTest, ConvertsIntegersByValue) {
  const int8_t bytes[] = {-128, -1, 0, 127};
  EXPECT_EQ(Dequantise(DType::kI8, bytes, 4), (std::vector<float>{-128, -1, 0, 127}));
  const int32_t words[] = {-2147483647 - 1, -1, 0, 16777217};
  EXPECT_EQ(Dequantise(DType::kI32, words, 4),
            (std::vector<float>{-2147483648.0f, -1, 0, 16777216}));
}

TEST(DequantiseTest, CopiesSinglesBitByBit) {
  const uint32_t bits[] = {0x80000000, 0x7F800001, 0x00000001, 0x3F800000};
  const std::vector<float> values = Dequantise(DType::kF32, bits, 4);
  EXPECT_EQ(std::memcmp(values.data(), bits, sizeof(bits)), 0);
}

}  // namespace
}  // namespace pergola::kernels
