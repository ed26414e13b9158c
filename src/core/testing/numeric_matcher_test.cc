#include "core/testing/numeric_matcher.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace pergola::testing {
namespace {

ConstF32Matrix View(const std::vector<float>& values, int64_t cols) {
  return {values.data(), static_cast<int64_t>(values.size()) / cols, cols};
}
double Hundredth(int64_t, int64_t) { return 0.01; }

TEST(NumericMatcherTest, WithinNamesTheWorstElement) {
  const std::vector<float> expected = {1, 2, 3, 4};
  EXPECT_TRUE(Within(View({1.001f, 2, 3, 4}, 2), View(expected, 2), Hundredth));
  const std::vector<float> off = {1.02f, 2, 3.5f, 4};
  const auto result = Within(View(off, 2), View(expected, 2), Hundredth);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("2 of 4"), std::string::npos) << result.message();
  EXPECT_NE(std::string(result.message()).find("[1, 0]"), std::string::npos) << result.message();
}

TEST(NumericMatcherTest, WithinRefusesNotANumberAndOtherShapes) {
  const std::vector<float> expected = {1, 2};
  const std::vector<float> nan = {1, NAN};
  EXPECT_FALSE(Within(View(nan, 2), View(expected, 2), Hundredth));
  EXPECT_FALSE(Within(View(expected, 2), View(expected, 1), Hundredth));
}

TEST(NumericMatcherTest, BitEqualTellsZerosApart) {
  const std::vector<float> a = {0.0f, 1.0f}, b = {-0.0f, 1.0f};
  EXPECT_TRUE(BitEqual(View(a, 2), View(a, 2)));
  EXPECT_FALSE(BitEqual(View(a, 2), View(b, 2)));
}

// The bound holds for f32 chains and is not so wide that it would hide a lost term.
TEST(NumericMatcherTest, DotProductBoundIsTight) {
  const int64_t terms = 1000;
  std::vector<float> a, b;
  uint32_t state = 1;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  };
  for (int64_t i = 0; i < terms; ++i) {
    a.push_back(next());
    b.push_back(next());
  }
  float chain = 0;
  double exact = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    chain += a[i] * b[i];
    exact += static_cast<double>(a[i]) * b[i];
  }
  const double bound = DotProductBound(terms, Norm(a.data(), terms), Norm(b.data(), terms));
  EXPECT_LE(std::abs(chain - exact), bound);
  EXPECT_LT(bound, 0.01);
}

}  // namespace
}  // namespace pergola::testing
