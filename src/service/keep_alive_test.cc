#include "service/keep_alive.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace pergola::service {
namespace {

using std::chrono::milliseconds;

TEST(KeepAliveTest, ReadsSecondsAndDurations) {
  const auto reads = [](const std::string& text, milliseconds expected) {
    const auto parsed = ParseKeepAlive(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, expected) << text;
  };
  reads("0", milliseconds(0));
  reads("300", milliseconds(300'000));
  reads("0.5", milliseconds(500));
  reads("+5m", milliseconds(300'000));
  reads("1h30m", milliseconds(5'400'000));
  reads("1m1.5s", milliseconds(61'500));
  reads("0s", milliseconds(0));
  reads("250ms", milliseconds(250));
  reads("3000\u00b5s", milliseconds(3));
  reads("2000us1000000ns", milliseconds(3));
}

TEST(KeepAliveTest, NegativeAndBeyondACenturyMeanForever) {
  for (const char* text : {"-1", "-1m", "-0.001s", "9999999h"}) {
    const auto parsed = ParseKeepAlive(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, kKeepForever) << text;
  }
  EXPECT_EQ(KeepAliveOf(1e300), kKeepForever);
  EXPECT_EQ(ExpiryOf(Clock::now(), kKeepForever), Clock::time_point::max());
}

TEST(KeepAliveTest, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "-", "m", "5x", "5 m", "5m5", "1.2.3s", "forever", "nan", "inf",
                           "--1", "0x10", ".", "1e9"}) {
    const auto parsed = ParseKeepAlive(text);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace pergola::service
