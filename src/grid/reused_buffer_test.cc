#include "grid/reused_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pergola::grid {
namespace {

constexpr size_t kMost = 1000;
using StringBuffer = ReusedBuffer<std::string>;

// A message of so many bytes; the capacity that is left for the next one.
template <class Buffer>
size_t Use(ReusedBuffer<Buffer>& reused, size_t bytes) {
  reused.buffer().resize(bytes);
  reused.EndMessage(bytes);
  return reused.buffer().capacity();
}

TEST(ReusedBufferTest, KeepsTheMemoryOfAMessageUpToTheLimit) {
  ReusedBuffer<std::vector<std::byte>> reused(kMost);
  EXPECT_EQ(Use(reused, kMost), kMost);
  EXPECT_EQ(Use(reused, 400), kMost);
  EXPECT_EQ(Use(reused, kMost + 1), 0u);
  EXPECT_EQ(Use(reused, 10), 10u);
}

TEST(ReusedBufferTest, GivesItBackAfterManyMuchSmallerMessages) {
  StringBuffer reused(kMost);
  const size_t large = Use(reused, kMost);
  for (int i = 1; i < StringBuffer::kSmallInARow; ++i) EXPECT_EQ(Use(reused, 100), large);
  EXPECT_LT(Use(reused, 100), 100u);
}

TEST(ReusedBufferTest, ALargeOneAmongSmallOnesKeepsIt) {
  StringBuffer reused(kMost);
  const size_t large = Use(reused, kMost);
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 1; i < StringBuffer::kSmallInARow; ++i) EXPECT_EQ(Use(reused, 1), large);
    EXPECT_EQ(Use(reused, 300), large);
  }
}

TEST(ReusedBufferTest, OneThatIsGivenBackCountsAnew) {
  StringBuffer reused(kMost);
  Use(reused, kMost);
  for (int i = 1; i < StringBuffer::kSmallInARow; ++i) Use(reused, 1);
  reused.GiveBack();
  EXPECT_LT(reused.buffer().capacity(), 100u);
  const size_t large = Use(reused, kMost);
  EXPECT_EQ(Use(reused, 1), large);
}

}  // namespace
}  // namespace pergola::grid
