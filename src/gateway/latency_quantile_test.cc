#include "gateway/latency_quantile.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

using std::chrono::milliseconds;

TEST(LatencyQuantileTest, IsNotKnownBeforeThereAreEnoughAnswers) {
  LatencyQuantile p95(0.95);
  for (size_t i = 0; i + 1 < LatencyQuantile::kLeast; ++i) p95.Add(10, milliseconds(5));
  EXPECT_FALSE(p95.Get(10).has_value());
  p95.Add(10, milliseconds(5));
  EXPECT_EQ(p95.Get(10), milliseconds(5));
}

TEST(LatencyQuantileTest, IsTheLatencyThatSoManyStayBelow) {
  LatencyQuantile p90(0.9);
  for (int i = 0; i < 100; ++i) p90.Add(10, milliseconds(1 + (i * 37) % 100));
  const auto got = p90.Get(10);
  ASSERT_TRUE(got.has_value());
  EXPECT_GE(*got, milliseconds(85));
  EXPECT_LE(*got, milliseconds(95));
}

TEST(LatencyQuantileTest, SizesAreToldApart) {
  LatencyQuantile p50(0.5);
  for (int i = 0; i < 100; ++i) {
    p50.Add(8 + i % 8, milliseconds(2));
    p50.Add(4096, milliseconds(300));
  }
  EXPECT_EQ(p50.Get(15), milliseconds(2));
  EXPECT_EQ(p50.Get(5000), milliseconds(300));
  EXPECT_FALSE(p50.Get(100).has_value());
  EXPECT_FALSE(p50.Get(0).has_value());
  p50.Add(int64_t{1} << 60, milliseconds(1));  // the last size has no end
}

TEST(LatencyQuantileTest, WhatIsLongAgoIsForgotten) {
  LatencyQuantile p95(0.95);
  for (int i = 0; i < 1000; ++i) p95.Add(1, milliseconds(900));
  for (size_t i = 0; i < LatencyQuantile::kWindow; ++i) p95.Add(1, milliseconds(3));
  EXPECT_EQ(p95.Get(1), milliseconds(3));
}

}  // namespace
}  // namespace pergola::gateway
