#include "service/embedding_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pergola::service {
namespace {

std::vector<float> Formatted(std::vector<float> row, bool normalise, size_t width) {
  std::vector<float> out(width);
  FormatFloats(row, normalise, out);
  return out;
}

TEST(EmbeddingFormatTest, CutsThenNormalisesWhatIsLeft) {
  const std::vector<float> out = Formatted({3.0f, 4.0f, 100.0f}, true, 2);
  EXPECT_FLOAT_EQ(out[0], 0.6f);
  EXPECT_FLOAT_EQ(out[1], 0.8f);
}

TEST(EmbeddingFormatTest, WithoutNormalisingTheValuesAreUntouched) {
  EXPECT_EQ(Formatted({3.0f, -4.5f, 1.0f}, false, 3), (std::vector<float>{3.0f, -4.5f, 1.0f}));
}

TEST(EmbeddingFormatTest, ZeroVectorStaysZero) {
  EXPECT_EQ(Formatted({0.0f, 0.0f}, true, 2), (std::vector<float>{0.0f, 0.0f}));
}

TEST(EmbeddingFormatTest, NormOfValuesWhoseSquaresOverflowFloatIsStillRight) {
  const std::vector<float> out = Formatted({3e30f, 4e30f}, true, 2);
  EXPECT_FLOAT_EQ(out[0], 0.6f);
  EXPECT_FLOAT_EQ(out[1], 0.8f);
}

TEST(EmbeddingFormatTest, Int8ScalesTheLargestMagnitudeTo127AndRoundsTiesAway) {
  const std::vector<float> row = {-254.0f, 3.0f, -3.0f, 1.0f, 0.0f, 253.0f};
  std::vector<int8_t> out(row.size());
  FormatInt8(row, Int8Rule::kLargest, out);
  // 3 / 2 = 1.5 and 253 / 2 = 126.5 are ties.
  EXPECT_EQ(out, (std::vector<int8_t>{-127, 2, -2, 1, 0, 127}));
}

TEST(EmbeddingFormatTest, Int8OfAZeroVectorIsZero) {
  const std::vector<float> row = {0.0f, -0.0f};
  std::vector<int8_t> out = {5, 5};
  FormatInt8(row, Int8Rule::kLargest, out);
  EXPECT_EQ(out, (std::vector<int8_t>{0, 0}));
}

TEST(EmbeddingFormatTest, Int8ByTanhNeedsNoOtherValuesOfTheRow) {
  const std::vector<float> row = {0.0f, 0.5f, -0.5f, 100.0f, -100.0f, 0.01f};
  std::vector<int8_t> out(row.size());
  FormatInt8(row, Int8Rule::kTanh, out);
  EXPECT_EQ(out, (std::vector<int8_t>{0, 59, -59, 127, -127, 1}));
}

TEST(EmbeddingFormatTest, BitsArePositiveValuesInTheAskedOrder) {
  const std::vector<float> row = {1, -1, 0, 2, -1, -1, -1, 3, 1, 1, 1, 1, 1, 1, 1, -0.0f};
  std::vector<uint8_t> out(2);
  FormatBits(row, BitOrder::kMsbFirst, out);
  EXPECT_EQ(out, (std::vector<uint8_t>{0b10010001, 0b11111110}));
  FormatBits(row, BitOrder::kLsbFirst, out);
  EXPECT_EQ(out, (std::vector<uint8_t>{0b10001001, 0b01111111}));
}

}  // namespace
}  // namespace pergola::service
