#include "scheduler/batching_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace pergola::scheduler {
namespace {

using service::Clock;
using service::Priority;
using std::chrono::milliseconds;
using Batch = std::vector<size_t>;

const Clock::time_point kStart{};

WaitingSequence Online(int64_t tokens, int64_t arrived_ms = 0) {
  return {tokens, Priority::kOnline, kStart + milliseconds(arrived_ms)};
}
WaitingSequence Bulk(int64_t tokens, int64_t arrived_ms = 0) {
  return {tokens, Priority::kBulk, kStart + milliseconds(arrived_ms)};
}
BatchingOptions Budget(int64_t tokens, int64_t lookahead = 256) {
  BatchingOptions options;
  options.step_tokens = tokens;
  options.lookahead = lookahead;
  return options;
}

TEST(BatchingPolicyTest, FillsTheBudgetInOrder) {
  const std::vector<WaitingSequence> queue = {Online(4), Online(3), Online(3), Online(1)};
  EXPECT_EQ(ChooseBatch(queue, kStart, Budget(10)), (Batch{0, 1, 2}));
  EXPECT_EQ(ChooseBatch(queue, kStart, Budget(11)), (Batch{0, 1, 2, 3}));
}

TEST(BatchingPolicyTest, LooksPastWhatDoesNotFit) {
  const std::vector<WaitingSequence> queue = {Online(4), Online(9), Online(3), Online(3)};
  EXPECT_EQ(ChooseBatch(queue, kStart, Budget(10)), (Batch{0, 2, 3}));
  EXPECT_EQ(ChooseBatch(queue, kStart, Budget(10, /*lookahead=*/0)), (Batch{0}));
}

TEST(BatchingPolicyTest, ASequenceOverTheBudgetRunsAlone) {
  const std::vector<WaitingSequence> queue = {Online(40), Online(1)};
  EXPECT_EQ(ChooseBatch(queue, kStart, Budget(10)), (Batch{0}));
}

TEST(BatchingPolicyTest, OnlineGoesBeforeBulkUntilBulkHasWaitedTooLong) {
  const std::vector<WaitingSequence> queue = {Bulk(6, 0), Online(6, 5), Bulk(4, 6)};
  EXPECT_EQ(ChooseBatch(queue, kStart + milliseconds(10), Budget(10)), (Batch{1, 2}));
  EXPECT_EQ(ChooseBatch(queue, kStart + milliseconds(2001), Budget(10)), (Batch{0, 2}));
}

TEST(BatchingPolicyTest, ShortOnesThatALongHeadLeavesOutRunFirst) {
  const std::vector<WaitingSequence> queue = {Online(64, 0), Online(64, 1), Online(4, 2),
                                              Online(1, 3),  Bulk(1, 4),    Online(4, 5)};
  const BatchingOptions options = Budget(64);
  const Batch regular = ChooseBatch(queue, kStart, options);
  ASSERT_EQ(regular, (Batch{0}));
  // 8 tokens are an eighth: 4 + 1, and the next 4 would be too many.
  EXPECT_EQ(ChooseExpress(queue, regular, options), (Batch{2, 3}));
  // Strict order, nothing left out, nothing that is short.
  EXPECT_TRUE(ChooseExpress(queue, regular, Budget(64, 0)).empty());
  const std::vector<WaitingSequence> fits = {Online(60, 0), Online(4, 1)};
  EXPECT_TRUE(ChooseExpress(fits, ChooseBatch(fits, kStart, options), options).empty());
  const std::vector<WaitingSequence> long_ones = {Online(64, 0), Online(5, 1)};
  EXPECT_TRUE(ChooseExpress(long_ones, Batch{0}, options).empty());
}

TEST(BatchingPolicyTest, AShortOneRunsFirstHoweverManyLongOnesStandBeforeIt) {
  std::vector<WaitingSequence> queue(2000, Online(64, 0));
  queue.push_back(Online(1, 1));
  const BatchingOptions options = Budget(64);
  EXPECT_EQ(ChooseExpress(queue, ChooseBatch(queue, kStart, options), options), (Batch{2000}));
}

TEST(BatchingPolicyTest, ShortOnesAmongThemselvesTakeTheirTurns) {
  const std::vector<WaitingSequence> queue(100, Online(4, 0));
  const BatchingOptions options = Budget(64);
  const Batch regular = ChooseBatch(queue, kStart, options);
  ASSERT_EQ(regular.size(), 16u);
  EXPECT_TRUE(ChooseExpress(queue, regular, options).empty());
}

// A queue that is always full of sequences as long as a step, and short ones that drop in: these
// wait for one step that they are not in, and a head for one express step.
TEST(BatchingPolicyTest, RandomSearchFindsNoShortOneThatWaitsForMoreThanAStep) {
  std::mt19937_64 random(31);
  for (int trial = 0; trial < 200; ++trial) {
    const BatchingOptions options = Budget(64);
    struct Waits {
      WaitingSequence sequence;
      int steps = 0;  // chosen without it
    };
    std::vector<Waits> queue;
    bool was_express = false;
    for (int step = 0; step < 200; ++step) {
      while (queue.size() < 8) queue.push_back({Online(64, step)});
      if (random() % 2 == 0)
        queue.push_back({Online(static_cast<int64_t>(1 + random() % 4), step)});
      std::vector<WaitingSequence> waiting;
      for (const Waits& each : queue) waiting.push_back(each.sequence);
      Batch batch = ChooseBatch(waiting, kStart, options);
      const size_t head = batch[0];
      Batch express;
      if (!was_express) express = ChooseExpress(waiting, batch, options);
      was_express = !express.empty();
      if (was_express) batch = express;
      int64_t tokens = 0;
      for (const size_t index : batch) tokens += waiting[index].tokens;
      ASSERT_LE(tokens, options.step_tokens);
      ASSERT_TRUE(was_express || batch[0] == head);
      for (size_t position = batch.size(); position-- > 0;) {
        queue.erase(queue.begin() + static_cast<int64_t>(batch[position]));
      }
      for (Waits& each : queue) {
        ++each.steps;
        ASSERT_TRUE(each.sequence.tokens > 4 || each.steps <= 1) << "trial " << trial;
        ASSERT_LE(each.steps, 2 * 9) << "trial " << trial;
      }
    }
  }
}

TEST(BatchingPolicyTest, OnlyAStepThatWasSharedMakesTheNextOneWait) {
  const BatchingOptions options = Budget(100);
  const LastStep alone{1, kStart, milliseconds(20)};
  EXPECT_LE(CollectUntil({1, 10, kStart}, {}, options), kStart);
  EXPECT_LE(CollectUntil({1, 10, kStart}, alone, options), kStart);
  const LastStep shared{4, kStart, milliseconds(10)};
  EXPECT_EQ(CollectUntil({1, 10, kStart}, shared, options), kStart + milliseconds(1));
  EXPECT_EQ(CollectUntil({3, 30, kStart}, shared, options), kStart + milliseconds(1));
  // As many as before, or a full step.
  EXPECT_LE(CollectUntil({4, 40, kStart}, shared, options), kStart);
  EXPECT_LE(CollectUntil({2, 100, kStart}, shared, options), kStart);
  // Counted from the end of that step, not from the arrival; bounded whatever the step took.
  EXPECT_EQ(CollectUntil({1, 10, kStart + milliseconds(9)}, shared, options),
            kStart + milliseconds(1));
  EXPECT_EQ(CollectUntil({1, 10, kStart}, {4, kStart, std::chrono::seconds(3)}, options),
            kStart + options.longest_window);
}

TEST(BatchingPolicyTest, AFixedWaitCountsFromTheOldestArrival) {
  BatchingOptions options = Budget(100);
  options.adaptive_wait = false;
  options.fixed_wait = milliseconds(7);
  EXPECT_EQ(CollectUntil({1, 10, kStart}, {}, options), kStart + milliseconds(7));
  EXPECT_EQ(CollectUntil({9, 99, kStart}, {20, kStart, milliseconds(90)}, options),
            kStart + milliseconds(7));
  EXPECT_LE(CollectUntil({2, 100, kStart}, {}, options), kStart);
}

// Closed-loop clients against a simulated clock: whatever they do, nobody is kept longer by the
// window than the header says, and a lone client not at all.
TEST(BatchingPolicyTest, RandomSearchFindsNobodyWhoWaitsLongerThanTheWindow) {
  std::mt19937_64 random(29);
  for (int trial = 0; trial < 300; ++trial) {
    BatchingOptions options = Budget(static_cast<int64_t>(1 + random() % 64));
    const size_t clients = 1 + random() % 8;
    Clock::time_point now = kStart;
    LastStep last;
    for (int step = 0; step < 100; ++step) {
      const std::chrono::microseconds pause(random() % 5000);
      const Clock::time_point oldest = now + pause;
      const WaitingSum waiting{1 + random() % clients, static_cast<int64_t>(1 + random() % 64),
                               oldest};
      const Clock::time_point until = CollectUntil(waiting, last, options);
      const Clock::time_point cut = std::max(oldest, until);
      ASSERT_LE(cut - oldest, options.longest_window);
      ASSERT_LE(cut - oldest, last.length / 10);
      if (clients == 1 || pause > options.longest_window) {
        ASSERT_EQ(cut, oldest);
      }
      last = {waiting.sequences, cut, std::chrono::microseconds(random() % 30000)};
      now = last.end;
    }
  }
}

TEST(BatchingPolicyTest, EmptyQueueGivesNoBatch) {
  EXPECT_TRUE(ChooseBatch({}, kStart, Budget(10)).empty());
}

// Random arrivals against a simulated clock: no batch over budget, and nobody waits longer than the
// work that was ahead of it (online), or that plus the patience (bulk).
TEST(BatchingPolicyTest, RandomSearchFindsNoStarvationAndNoOverfullBatch) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    BatchingOptions options = Budget(1 + random() % 64, random() % 3 == 0 ? 0 : random() % 20);
    options.max_sequences = 1 + static_cast<int64_t>(random() % 8);
    options.bulk_patience = milliseconds(50);
    std::vector<WaitingSequence> queue;
    std::vector<int64_t> heads_ahead;  // steps each may still wait for
    Clock::time_point now = kStart;
    for (int step = 0; step < 200; ++step) {
      for (uint64_t arrivals = random() % 4; arrivals > 0; --arrivals) {
        const auto tokens = static_cast<int64_t>(1 + random() % 80);
        const Priority priority = random() % 4 == 0 ? Priority::kBulk : Priority::kOnline;
        queue.push_back({tokens, priority, now});
        // At worst each that is already there runs alone before it, and bulk waits out its
        // patience.
        heads_ahead.push_back(static_cast<int64_t>(queue.size()) +
                              (priority == Priority::kBulk ? 50 + static_cast<int64_t>(queue.size())
                                                           : static_cast<int64_t>(queue.size())));
      }
      now += milliseconds(1);
      const Batch batch = ChooseBatch(queue, now, options);
      ASSERT_EQ(batch.empty(), queue.empty());
      if (batch.empty()) continue;
      int64_t tokens = 0;
      for (const size_t index : batch) tokens += queue[index].tokens;
      ASSERT_TRUE(batch.size() == 1 || tokens <= options.step_tokens);
      ASSERT_LE(static_cast<int64_t>(batch.size()), options.max_sequences);
      Batch sorted = batch;
      std::sort(sorted.begin(), sorted.end());
      ASSERT_TRUE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
      for (size_t position = sorted.size(); position-- > 0;) {
        queue.erase(queue.begin() + static_cast<int64_t>(sorted[position]));
        heads_ahead.erase(heads_ahead.begin() + static_cast<int64_t>(sorted[position]));
      }
      for (int64_t& ahead : heads_ahead) ASSERT_GE(--ahead, 0) << "trial " << trial;
    }
  }
}

}  // namespace
}  // namespace pergola::scheduler
