#include "models/kv_cache.h"

#include <gtest/gtest.h>

namespace pergola::models {
namespace {

TEST(KvCacheTest, StagedRowsCountOnlyAfterTheCommit) {
  KvCache cache(2, 2);
  const std::vector<float> keys = {1, 2, 3, 4}, values = {5, 6, 7, 8};
  for (const int64_t layer : {0, 1}) {
    cache.Stage(layer, {keys.data(), 2, 2}, {values.data(), 2, 2});
  }
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.keys(1).rows, 2);
  // A second attempt takes the place of the first.
  cache.Stage(0, {values.data(), 1, 2}, {keys.data(), 1, 2});
  EXPECT_EQ(cache.keys(0).rows, 1);
  EXPECT_EQ(cache.keys(0).row(0)[1], 6.0f);
  cache.Stage(0, {keys.data(), 2, 2}, {values.data(), 2, 2});
  cache.Commit(2);
  cache.Stage(0, {values.data(), 1, 2}, {keys.data(), 1, 2});
  EXPECT_EQ(cache.length(), 2);
  ASSERT_EQ(cache.keys(0).rows, 3);
  EXPECT_EQ(cache.keys(0).row(1)[0], 3.0f);
  EXPECT_EQ(cache.keys(0).row(2)[0], 5.0f);
  EXPECT_EQ(cache.values(0).row(2)[1], 2.0f);
}

TEST(KvCacheTest, TruncatingForgetsTheRest) {
  KvCache cache(1, 1);
  const std::vector<float> rows = {1, 2, 3};
  cache.Stage(0, {rows.data(), 3, 1}, {rows.data(), 3, 1});
  cache.Commit(3);
  cache.Truncate(1);
  cache.Stage(0, {rows.data(), 1, 1}, {rows.data(), 1, 1});
  EXPECT_EQ(cache.keys(0).rows, 2);
  EXPECT_EQ(cache.keys(0).row(1)[0], 1.0f);
  EXPECT_GT(cache.bytes(), 0u);
}

}  // namespace
}  // namespace pergola::models
