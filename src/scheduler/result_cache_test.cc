#include "scheduler/result_cache.h"

#include <gtest/gtest.h>

namespace pergola::scheduler {
namespace {

std::shared_ptr<const service::SequenceOutput> MakeRows(float value, int64_t width) {
  auto output = std::make_shared<service::SequenceOutput>();
  (*output)[OutputKind::kEmbedding] = {1, width,
                                       std::vector<float>(static_cast<size_t>(width), value)};
  return output;
}

constexpr OutputSet kEmbedding = {OutputKind::kEmbedding};

TEST(ResultCacheTest, FindsByOutputsAndSequence) {
  ResultCache cache(1 << 20);
  const SequenceKey key{kEmbedding, {{1, 2, 3}}};
  cache.Put(key, MakeRows(5, 4));
  ASSERT_NE(cache.Get(key), nullptr);
  EXPECT_EQ((*cache.Get(key))[OutputKind::kEmbedding].values[0], 5);
  EXPECT_EQ(cache.Get({{OutputKind::kTokenVectors}, {{1, 2, 3}}}), nullptr);
  EXPECT_EQ(cache.Get({kEmbedding, {{1, 2}}}), nullptr);
  EXPECT_EQ(cache.Get({kEmbedding, {{1, 2, 3}, 1}}), nullptr);
  EXPECT_EQ(cache.Get({kEmbedding, {{1, 2, 3}, 0, {{0, 2}}}}), nullptr);
}

TEST(ResultCacheTest, DropsTheLeastRecentlyUsedAtTheByteLimit) {
  ResultCache cache(20 * 1400);  // an entry of 199 floats is about 1,400 bytes
  for (int id = 0; id < 19; ++id) cache.Put({kEmbedding, {{id}}}, MakeRows(1, 199));
  EXPECT_EQ(cache.entries(), 19u);
  ASSERT_NE(cache.Get({kEmbedding, {{0}}}), nullptr);  // now recent
  for (int id = 100; id < 110; ++id) cache.Put({kEmbedding, {{id}}}, MakeRows(1, 199));
  EXPECT_LE(cache.bytes(), 20u * 1400);
  EXPECT_NE(cache.Get({kEmbedding, {{0}}}), nullptr);
  EXPECT_EQ(cache.Get({kEmbedding, {{1}}}), nullptr);
}

TEST(ResultCacheTest, CapacityZeroAndLargeEntriesKeepNothing) {
  ResultCache none(0);
  none.Put({kEmbedding, {{1}}}, MakeRows(1, 4));
  EXPECT_EQ(none.entries(), 0u);
  ResultCache small(16 * 1000);
  small.Put({kEmbedding, {{1}}}, MakeRows(1, 1000));
  EXPECT_EQ(small.entries(), 0u);
}

}  // namespace
}  // namespace pergola::scheduler
