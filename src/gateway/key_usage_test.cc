#include "gateway/key_usage.h"

#include <gtest/gtest.h>

#include <random>

namespace pergola::gateway {
namespace {

using service::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Clock::time_point kStart{std::chrono::hours(1)};

TEST(TokenBucketTest, HoldsWhatAMinuteBringsAndRefillsEvenly) {
  TokenBucket bucket;
  bucket.SetPerMinute(60, kStart);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(bucket.Take(1, kStart), Clock::duration::zero());
  EXPECT_EQ(bucket.Take(1, kStart), seconds(1));
  EXPECT_EQ(bucket.Take(1, kStart + milliseconds(400)), milliseconds(600));
  EXPECT_EQ(bucket.Take(1, kStart + seconds(1)), Clock::duration::zero());
  EXPECT_GT(bucket.Take(1, kStart + seconds(1)), Clock::duration::zero());
  // An hour fills it once, not sixty times.
  const auto later = kStart + std::chrono::hours(1);
  EXPECT_EQ(bucket.Take(60, later), Clock::duration::zero());
  EXPECT_EQ(bucket.Take(1, later), seconds(1));
}

TEST(TokenBucketTest, WhatIsRefusedTakesNothing) {
  TokenBucket bucket;
  bucket.SetPerMinute(100, kStart);
  EXPECT_EQ(bucket.Take(60, kStart), Clock::duration::zero());
  EXPECT_GT(bucket.Take(50, kStart), Clock::duration::zero());
  EXPECT_EQ(bucket.Take(40, kStart), Clock::duration::zero());
}

TEST(TokenBucketTest, MoreThanAMinuteBringsPassesWhenFullAndIsPaidOff) {
  TokenBucket bucket;
  bucket.SetPerMinute(60, kStart);
  EXPECT_EQ(bucket.Take(180, kStart), Clock::duration::zero());
  // 120 owed: two minutes to nothing, one second more for one.
  EXPECT_EQ(bucket.Take(1, kStart), seconds(121));
  EXPECT_EQ(bucket.Take(180, kStart + seconds(121)), seconds(59));
}

TEST(TokenBucketTest, TimeThatGoesBackFillsNothing) {
  TokenBucket bucket;
  bucket.SetPerMinute(60, kStart);
  EXPECT_EQ(bucket.Take(60, kStart), Clock::duration::zero());
  EXPECT_GT(bucket.Take(1, kStart - seconds(30)), Clock::duration::zero());
  EXPECT_GT(bucket.Take(1, kStart), Clock::duration::zero());
}

TEST(TokenBucketTest, WithoutALimitAllPasses) {
  TokenBucket bucket;
  bucket.SetPerMinute(0, kStart);
  EXPECT_EQ(bucket.Take(int64_t{1} << 40, kStart), Clock::duration::zero());
}

// Over any run of requests: never more than a minute's worth above the rate, and what the bucket
// says of the wait is exact.
TEST(TokenBucketTest, RandomRunsKeepTheRateAndTheWait) {
  std::minstd_rand random(7);
  for (int run = 0; run < 50; ++run) {
    const auto per_minute = static_cast<int64_t>(1 + random() % 5000);
    TokenBucket bucket;
    bucket.SetPerMinute(per_minute, kStart);
    Clock::time_point now = kStart;
    int64_t taken = 0;
    for (int step = 0; step < 200; ++step) {
      now += milliseconds(random() % 3000);
      const auto amount = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(per_minute));
      const Clock::duration wait = bucket.Take(amount, now);
      if (wait > Clock::duration::zero()) {
        TokenBucket early = bucket;
        EXPECT_GT(early.Take(amount, now + wait - milliseconds(2)), Clock::duration::zero());
        now += wait;
        ASSERT_EQ(bucket.Take(amount, now), Clock::duration::zero());
      }
      taken += amount;
      const double minutes = std::chrono::duration<double>(now - kStart).count() / 60;
      ASSERT_LE(static_cast<double>(taken),
                static_cast<double>(per_minute) * (1 + minutes) + 1e-3 * step + 1e-3);
    }
  }
}

TEST(KeyUsageTest, RefusesBeyondEachLimitAndSaysWhich) {
  KeyUsage key({.requests_per_minute = 3, .tokens_per_minute = 100, .concurrent = 2}, kStart);
  EXPECT_FALSE(key.Begin(kStart));
  EXPECT_FALSE(key.Begin(kStart));
  auto refusal = key.Begin(kStart);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, "concurrent");
  EXPECT_NE(refusal->message.find("2 requests at a time"), std::string::npos);
  EXPECT_EQ(refusal->retry_after, seconds(1));
  key.End();
  EXPECT_FALSE(key.Begin(kStart));
  key.End();
  refusal = key.Begin(kStart);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, "requests");
  EXPECT_NE(refusal->message.find("3 requests per minute"), std::string::npos);
  EXPECT_EQ(refusal->retry_after, seconds(20));
  EXPECT_FALSE(key.TakeTokens(70, kStart));
  refusal = key.TakeTokens(70, kStart);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, "tokens");
  EXPECT_EQ(refusal->retry_after, seconds(24));
  EXPECT_FALSE(key.TakeTokens(70, kStart + seconds(24)));
  EXPECT_EQ(key.in_work(), 1);
}

TEST(KeyUsageTest, NewLimitsDoNotForgetWhatWasUsed) {
  KeyUsage key({.requests_per_minute = 10}, kStart);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(key.Begin(kStart));
  key.SetLimits({.requests_per_minute = 20}, kStart);
  EXPECT_TRUE(key.Begin(kStart));
  key.SetLimits({}, kStart);
  EXPECT_FALSE(key.Begin(kStart));
  EXPECT_EQ(key.in_work(), 11);
}

}  // namespace
}  // namespace pergola::gateway
