#include "models/blocks/distance_vectors.h"

#include <gtest/gtest.h>

namespace pergola::models {
namespace {

TEST(LogBucketTest, NearDistancesAreExactAndFarOnesLogarithmic) {
  // Values of transformers' make_log_bucket_position for DeBERTa v3's 256 buckets up to 512.
  EXPECT_EQ(LogBucket(0, 256, 512), 0);
  EXPECT_EQ(LogBucket(1, 256, 512), 1);
  EXPECT_EQ(LogBucket(-127, 256, 512), -127);
  EXPECT_EQ(LogBucket(128, 256, 512), 128);
  EXPECT_EQ(LogBucket(129, 256, 512), 129);
  EXPECT_EQ(LogBucket(-130, 256, 512), -130);
  EXPECT_EQ(LogBucket(200, 256, 512), 169);
  EXPECT_EQ(LogBucket(-300, 256, 512), -207);
  EXPECT_EQ(LogBucket(511, 256, 512), 255);
  EXPECT_EQ(LogBucket(512, 256, 512), 256);
  EXPECT_EQ(LogBucket(2000, 256, 512), 381);
  EXPECT_EQ(LogBucket(-200, 8, 64), -9);
}

// What kernels::DistanceVectors asks of its rows.
TEST(DistanceRowsTest, NeighbouringDistancesShareARowOrHaveTheNext) {
  const DisentangledParameters cases[] = {{.buckets = 256, .max_distance = 512, .keys = true},
                                          {.buckets = 8, .max_distance = 11, .keys = true},
                                          {.buckets = 6, .max_distance = 40, .keys = true},
                                          {.max_distance = 20, .queries = true}};
  for (const DisentangledParameters& parameters : cases) {
    for (const int64_t positions : {1, 2, 40, 600}) {
      const DistanceRows rows = FindDistanceRows(parameters, positions);
      ASSERT_EQ(rows.by_distance.size(), static_cast<size_t>(2 * positions - 1));
      EXPECT_EQ(rows.by_distance.front(), 0);
      EXPECT_EQ(rows.by_distance.back() + 1, static_cast<int32_t>(rows.table_rows.size()));
      for (size_t i = 1; i < rows.by_distance.size(); ++i) {
        const int32_t step = rows.by_distance[i] - rows.by_distance[i - 1];
        EXPECT_TRUE(step == 0 || step == 1) << i;
      }
    }
  }
}

TEST(DistanceRowsTest, DistancesBeyondTheTableShareItsEnds) {
  const DistanceRows rows = FindDistanceRows({.max_distance = 3, .keys = true}, 6);
  // Keys far before the query stand at the table's end, far behind it at its beginning.
  EXPECT_EQ(rows.table_rows, (std::vector<int32_t>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(rows.by_distance, (std::vector<int32_t>{0, 0, 0, 0, 1, 2, 3, 4, 5, 5, 5}));
}

}  // namespace
}  // namespace pergola::models
