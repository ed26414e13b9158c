#include "core/periodic.h"

#include <gtest/gtest.h>

#include <atomic>

#include "core/testing/eventually.h"

namespace pergola {
namespace {

TEST(PeriodicTest, CallsAgainAndAgainUntilDestroyed) {
  std::atomic<int> calls = 0;
  bool ended = false;
  {
    const Periodic counting(std::chrono::milliseconds(1), [&] {
      EXPECT_FALSE(ended);
      ++calls;
    });
    EXPECT_TRUE(Eventually([&] { return calls >= 3; }));
  }
  ended = true;  // a call after this would be a race that a sanitizer notices, too
}

TEST(PeriodicTest, EndsWithoutWaitingForItsPeriod) {
  const Periodic rare(std::chrono::hours(1), [] { FAIL() << "not yet"; });
}

}  // namespace
}  // namespace pergola
