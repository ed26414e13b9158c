#include "gateway/deadline_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "gateway/work_pool.h"

namespace pergola::gateway {
namespace {

using service::Clock;

TEST(DeadlineTimerTest, FiresInTheOrderOfDeadlinesAndNotBefore) {
  DeadlineTimer timer;
  const auto now = Clock::now();
  std::mutex mutex;
  std::vector<int> order;
  std::promise<void> last;
  const auto note = [&](int number, Clock::time_point when) {
    return [&, number, when] {
      EXPECT_GE(Clock::now(), when);
      const std::lock_guard lock(mutex);
      order.push_back(number);
      if (order.size() == 3) last.set_value();
    };
  };
  const auto late = now + std::chrono::milliseconds(12);
  const auto soon = now + std::chrono::milliseconds(4);
  timer.Add(late, note(3, late));
  timer.Add(soon, note(2, soon));
  timer.Add(now, note(1, now));
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(DeadlineTimerTest, WhatIsRemovedDoesNotFire) {
  std::atomic<bool> fired = false;
  std::promise<void> other;
  DeadlineTimer timer;
  const auto when = Clock::now() + std::chrono::milliseconds(5);
  const auto ticket = timer.Add(when, [&fired] { fired = true; });
  timer.Add(when, [&other] { other.set_value(); });  // fires after it, if at all
  timer.Remove(ticket);
  timer.Remove(ticket);
  other.get_future().wait();
  EXPECT_FALSE(fired);
}

TEST(DeadlineTimerTest, DestroysWhatIsStillWaiting) {
  auto alive = std::make_shared<int>(1);
  {
    DeadlineTimer timer;
    timer.Add(Clock::now() + std::chrono::hours(1), [alive] {});
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(WorkPoolTest, RunsEverythingThatWasPostedBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    WorkPool pool(3);
    for (int i = 0; i < 500; ++i) pool.Post([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 500);
}

TEST(WorkPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    WorkPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Post([&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace pergola::gateway
