#include "gateway/byte_budget.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

TEST(ByteBudgetTest, GivesBackWhatItTook) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  {
    ByteReservation held(budget);
    EXPECT_TRUE(held.GrowTo(400));
    EXPECT_TRUE(held.GrowTo(300));  // never shrinks
    EXPECT_EQ(budget->used_bytes(), 400u);
    EXPECT_FALSE(held.GrowTo(1001));
    EXPECT_EQ(budget->used_bytes(), 400u);
    EXPECT_TRUE(held.GrowTo(1000));
    ByteReservation other(budget);
    EXPECT_FALSE(other.GrowTo(1));
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
}

TEST(ByteBudgetTest, ReleaseGivesAllBackAtOnce) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  ByteReservation held(budget);
  EXPECT_TRUE(held.GrowTo(600));
  held.Release();
  EXPECT_EQ(budget->used_bytes(), 0u);
  EXPECT_TRUE(held.GrowTo(1000));
}

TEST(ByteBudgetTest, KeepsTheLastEighthForSmallHolders) {
  constexpr uint64_t kLimit = 8 << 20;
  const auto budget = std::make_shared<ByteBudget>(kLimit);
  ByteReservation large(budget);
  EXPECT_FALSE(large.GrowTo(kLimit));
  EXPECT_TRUE(large.GrowTo(kLimit - kLimit / 8));
  ByteReservation second(budget);
  EXPECT_TRUE(second.GrowTo(ByteBudget::kSmallBytes));
  EXPECT_FALSE(second.GrowTo(ByteBudget::kSmallBytes + 1));
}

}  // namespace
}  // namespace pergola::gateway
