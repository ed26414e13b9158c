#include "scheduler/result_cache.h"

#include <gtest/gtest.h>

namespace pergola::scheduler {
namespace {

std::shared_ptr<const service::Rows> MakeRows(float value, int64_t width) {
  return std::make_shared<service::Rows>(
      service::Rows{1, width, std::vector<float>(static_cast<size_t>(width), value)});
}

TEST(ResultCacheTest, FindsByTaskAndIds) {
  ResultCache cache(1 << 20);
  const SequenceKey key{service::Task::kEmbed, {1, 2, 3}};
  cache.Put(key, MakeRows(5, 4));
  ASSERT_NE(cache.Get(key), nullptr);
  EXPECT_EQ(cache.Get(key)->values[0], 5);
  EXPECT_EQ(cache.Get({service::Task::kTokenVectors, {1, 2, 3}}), nullptr);
  EXPECT_EQ(cache.Get({service::Task::kEmbed, {1, 2}}), nullptr);
}

TEST(ResultCacheTest, DropsTheLeastRecentlyUsedAtTheByteLimit) {
  ResultCache cache(20 * 1000);  // an entry of 200 floats is about 1,000 bytes
  for (int id = 0; id < 19; ++id) cache.Put({service::Task::kEmbed, {id}}, MakeRows(1, 199));
  EXPECT_EQ(cache.entries(), 19u);
  ASSERT_NE(cache.Get({service::Task::kEmbed, {0}}), nullptr);  // now recent
  for (int id = 100; id < 110; ++id) cache.Put({service::Task::kEmbed, {id}}, MakeRows(1, 199));
  EXPECT_LE(cache.bytes(), 20u * 1000);
  EXPECT_NE(cache.Get({service::Task::kEmbed, {0}}), nullptr);
  EXPECT_EQ(cache.Get({service::Task::kEmbed, {1}}), nullptr);
}

TEST(ResultCacheTest, CapacityZeroAndLargeEntriesKeepNothing) {
  ResultCache none(0);
  none.Put({service::Task::kEmbed, {1}}, MakeRows(1, 4));
  EXPECT_EQ(none.entries(), 0u);
  ResultCache small(16 * 1000);
  small.Put({service::Task::kEmbed, {1}}, MakeRows(1, 1000));
  EXPECT_EQ(small.entries(), 0u);
}

}  // namespace
}  // namespace pergola::scheduler
