#include "core/alarm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace pergola {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::unique_ptr<Alarm> Make() {
  auto alarm = Alarm::Make();
  EXPECT_TRUE(alarm.ok()) << alarm.status().ToString();
  return std::move(*alarm);
}

TEST(AlarmTest, GoesOffInItsTimeAndOnce) {
  const auto alarm = Make();
  const auto start = steady_clock::now();
  alarm->Set(milliseconds(5));
  alarm->Wait();
  EXPECT_GE(steady_clock::now() - start, milliseconds(5));
  alarm->Set(milliseconds(5));  // the first does not count again
  alarm->Wait();
  EXPECT_GE(steady_clock::now() - start, milliseconds(10));
}

TEST(AlarmTest, ASleeperIsWokenByATimeSetMeanwhile) {
  const auto alarm = Make();
  alarm->Set(hours(1));
  std::atomic<bool> woken = false;
  std::thread sleeper([&] {
    alarm->Wait();
    woken = true;
  });
  alarm->Set(hours(2));
  EXPECT_FALSE(woken);
  alarm->Set({});
  sleeper.join();
}

TEST(AlarmTest, AnotherTimeTakesBackWhatHasGoneOffUnseen) {
  const auto alarm = Make();
  alarm->Set({});
  const auto start = steady_clock::now();
  alarm->Set(milliseconds(5));
  alarm->Wait();
  EXPECT_GE(steady_clock::now() - start, milliseconds(5));
}

}  // namespace
}  // namespace pergola
