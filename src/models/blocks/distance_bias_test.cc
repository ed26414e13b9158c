#include "models/blocks/distance_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
namespace pergola::models {
namespace {

TEST(RelativeBucketTest, NearDistancesAreExactAndFarOnesLogarithmic) {
  // Values of transformers' MPNetEncoder.relative_position_bucket for 32 buckets.
  EXPECT_EQ(RelativeBucket(0, 32), 0);
  EXPECT_EQ(RelativeBucket(-7, 32), 7);
  EXPECT_EQ(RelativeBucket(-8, 32), 8);
  EXPECT_EQ(RelativeBucket(-15, 32), 9);
  EXPECT_EQ(RelativeBucket(-16, 32), 10);
  EXPECT_EQ(RelativeBucket(-64, 32), 14);
  EXPECT_EQ(RelativeBucket(-1000, 32), 15);
  EXPECT_EQ(RelativeBucket(1, 32), 17);
  EXPECT_EQ(RelativeBucket(128, 32), 31);
}

TEST(DistanceBiasTest, DistancesBeyondTheReachShareOneBucket) {
  EXPECT_EQ(RelativeBucket(kMaxBucketDistance, 32), RelativeBucket(100000, 32));
  std::vector<float> by_bucket(32 * 2);
  for (size_t i = 0; i < by_bucket.size(); ++i) by_bucket[i] = static_cast<float>(i);
  const std::vector<float> bias = ExpandDistanceBias(by_bucket, 32, 2);
  const int64_t width = 2 * kMaxBucketDistance + 1;
  EXPECT_EQ(bias[kMaxBucketDistance], 0);               // head 0, distance 0: bucket 0
  EXPECT_EQ(bias[width + kMaxBucketDistance + 1], 35);  // head 1, distance 1: bucket 17
}

// The slopes that Press et al. give for 8 heads, and how 6 heads are made of 4 and 8.
TEST(DistanceBiasTest, AlibiFallsByTheSlopeOfTheHead) {
  const std::vector<float> eight = MakeAlibi(8, 2);
  ASSERT_EQ(eight.size(), 8u * 5);
  for (int head = 0; head < 8; ++head) {
    const float slope = std::ldexp(1.0f, -(head + 1));
    for (int distance = -2; distance <= 2; ++distance) {
      EXPECT_FLOAT_EQ(eight[static_cast<size_t>(head * 5 + distance + 2)],
                      -slope * static_cast<float>(std::abs(distance)));
    }
  }
  const std::vector<float> six = MakeAlibi(6, 1);
  const int exponents[] = {2, 4, 6, 8, 1, 3};
  for (int head = 0; head < 6; ++head) {
    EXPECT_FLOAT_EQ(six[static_cast<size_t>(head * 3)], -std::ldexp(1.0f, -exponents[head]));
  }
}

}  // namespace
}  // namespace pergola::models
