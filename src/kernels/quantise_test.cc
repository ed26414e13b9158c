#include "kernels/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "kernels/dequantise.h"
#include "kernels/testing/random_tensors.h"
#include "kernels/weight_type.h"

namespace pergola::kernels {
namespace {

std::vector<float> RoundTrip(DType dtype, const std::vector<float>& values) {
  const auto elements = static_cast<int64_t>(values.size());
  std::vector<std::byte> bytes(
      static_cast<size_t>(elements / BlockElements(dtype) * BlockBytes(dtype)));
  QuantiseRow(dtype, values.data(), elements, bytes.data());
  std::vector<float> back(values.size());
  DequantiseRow(dtype, bytes.data(), elements, back.data());
  return back;
}

TEST(QuantiseTest, SinglesAreKept) {
  testing::Random random(1);
  const std::vector<float> values = random.Values(64);
  EXPECT_EQ(RoundTrip(DType::kF32, values), values);
}

TEST(QuantiseTest, HalvesRoundToNearestEven) {
  // 1 + 2^-11 lies between 1 and 1 + 2^-10: to the even one; a little more goes up.
  const std::vector<float> values = {
      0.0f,     -0.0f, 1.0f,     1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 1.00049f, -2.5f,
      65504.0f, 1e9f,  0x1p-24f, 0x1.8p-24f,      0x1p-26f,          0x1p-14f};
  const std::vector<float> expected = {
      0.0f,     -0.0f,    1.0f,     1.0f,     1.0f + 0x1p-9f, 1.0f + 0x1p-10f, -2.5f,
      65504.0f, 65504.0f, 0x1p-24f, 0x1p-23f, 0.0f,           0x1p-14f};
  const std::vector<float> actual = RoundTrip(DType::kF16, values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(actual[i], expected[i]) << values[i];
}

TEST(QuantiseTest, BF16RoundsToNearestEven) {
  const std::vector<float> values = {1.0f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-7f, -3.0f, 1e-30f};
  const std::vector<float> actual = RoundTrip(DType::kBF16, values);
  EXPECT_EQ(actual[0], 1.0f);
  EXPECT_EQ(actual[1], 1.0f);
  EXPECT_EQ(actual[2], 1.0f + 0x1p-6f);
  EXPECT_EQ(actual[3], -3.0f);
  EXPECT_NEAR(actual[4], 1e-30f, 1e-30f / 256);
}

TEST(QuantiseTest, BlocksAreWithinHalfAStep) {
  testing::Random random(2);
  std::vector<float> values = random.Values(32 * 40);
  std::fill_n(values.begin(), 32, 0.0f);
  // The step of a block: largest magnitude / 127 or / 8; the scale itself is rounded to f16.
  for (const auto& [dtype, steps] : {std::pair{DType::kQ8_0, 127.0}, {DType::kQ4_0, 8.0}}) {
    const std::vector<float> back = RoundTrip(dtype, values);
    for (size_t block = 0; block < values.size(); block += 32) {
      double largest = 0;
      for (size_t i = block; i < block + 32; ++i) {
        largest = std::max(largest, std::abs(double(values[i])));
      }
      // In 4 bits the opposite end reaches 7 steps only: half a step more.
      const double bound = (dtype == DType::kQ4_0 ? 1.0 : 0.5) * largest / steps + largest / 2000;
      for (size_t i = block; i < block + 32; ++i) {
        ASSERT_LE(std::abs(double(back[i]) - values[i]), bound) << DTypeName(dtype);
      }
    }
  }
}

std::vector<std::byte> ReadGolden(const std::string& name) {
  std::ifstream file(std::string(PERGOLA_TEST_DATA) + "/golden/quant/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Values and blocks of tests/golden/quant/make_encode_goldens.py.
TEST(QuantiseTest, BlocksAreThoseOfThePythonPackage) {
  const std::vector<std::byte> stored = ReadGolden("encode.f32");
  std::vector<float> values(stored.size() / sizeof(float));
  ASSERT_EQ(values.size(), 96U * 32);
  std::memcpy(values.data(), stored.data(), stored.size());
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) {
    const std::vector<std::byte> expected = ReadGolden("encode." + std::string(DTypeName(dtype)));
    std::vector<std::byte> actual(96 * static_cast<size_t>(BlockBytes(dtype)));
    ASSERT_EQ(expected.size(), actual.size());
    QuantiseRow(dtype, values.data(), static_cast<int64_t>(values.size()), actual.data());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i], expected[i]) << DTypeName(dtype) << " byte " << i;
    }
  }
}

TEST(WeightTypeTest, NamesAreParsedAndBlocksStayWhereTheyMust) {
  EXPECT_EQ(*ParseWeightType("auto"), WeightType::kAsIs);
  EXPECT_EQ(*ParseWeightType("bf16"), WeightType::kBF16);
  EXPECT_EQ(ParseWeightType("int3").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ComputedType(WeightType::kInt8, DType::kF32, 64), DType::kQ8_0);
  EXPECT_EQ(ComputedType(WeightType::kInt8, DType::kF32, 48), DType::kF32);
  EXPECT_EQ(ComputedType(WeightType::kInt8, DType::kQ4_0, 64), DType::kQ4_0);
  EXPECT_EQ(ComputedType(WeightType::kInt8, DType::kQ6_K, 256), DType::kQ8_0);
  EXPECT_EQ(ComputedType(WeightType::kAsIs, DType::kF16, 7), DType::kF16);
}

}  // namespace
}  // namespace pergola::kernels
