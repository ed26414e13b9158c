#include "hub/retry_pause.h"

#include <gtest/gtest.h>

namespace pergola::hub {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RetryPolicy Drawing(double value) {
  RetryPolicy policy;
  policy.first_pause = milliseconds(1000);
  policy.longest_pause = milliseconds(60'000);
  policy.uniform = [value] { return value; };
  return policy;
}

TEST(RetryPauseTest, DoublesAndIsDrawnFromTheUpperHalf) {
  EXPECT_EQ(PauseAfter(Drawing(0), 1, {}), milliseconds(500));
  EXPECT_EQ(PauseAfter(Drawing(1), 1, {}), milliseconds(1000));
  EXPECT_EQ(PauseAfter(Drawing(0.5), 2, {}), milliseconds(1500));
  EXPECT_EQ(PauseAfter(Drawing(1), 3, {}), milliseconds(4000));
  EXPECT_EQ(PauseAfter(Drawing(1), 1000, {}), milliseconds(60'000));
}

TEST(RetryPauseTest, TheServersWordIsTheLeastAndTooMuchIsNotWaitedFor) {
  EXPECT_EQ(PauseAfter(Drawing(1), 1, seconds(7)), milliseconds(7000));
  EXPECT_EQ(PauseAfter(Drawing(1), 4, seconds(7)), milliseconds(8000));
  EXPECT_EQ(PauseAfter(Drawing(1), 1, seconds(60)), milliseconds(60'000));
  EXPECT_EQ(PauseAfter(Drawing(1), 1, seconds(61)), std::nullopt);
}

TEST(RetryPauseTest, WithoutASourceOfItsOwnItDrawsWithinTheBounds) {
  RetryPolicy policy = Drawing(0);
  policy.uniform = {};
  for (int i = 0; i < 100; ++i) {
    const auto pause = PauseAfter(policy, 1, {});
    ASSERT_TRUE(pause);
    EXPECT_GE(*pause, milliseconds(500));
    EXPECT_LE(*pause, milliseconds(1000));
  }
}

TEST(RetryPauseTest, WaitsAsItIsTold) {
  milliseconds slept{0};
  RetryPolicy policy;
  policy.sleep = [&](milliseconds pause) { slept += pause; };
  policy.Wait(std::chrono::hours(1));
  EXPECT_EQ(slept, std::chrono::hours(1));
}

}  // namespace
}  // namespace pergola::hub
