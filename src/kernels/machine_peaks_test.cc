#include "kernels/machine_peaks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pergola::kernels {
namespace {

TEST(MachinePeaksTest, EveryLimitHasItsRateAndItsUnit) {
  const auto measured = MeasureMachinePeaks(
      {.num_threads = 2, .round = std::chrono::milliseconds(1), .memory_bytes = 1 << 20});
  ASSERT_TRUE(measured.ok()) << measured.status().ToString();
  const std::vector<MachinePeak>& peaks = *measured;
  const auto find = [&](std::string_view name) {
    return std::find_if(peaks.begin(), peaks.end(),
                        [&](const MachinePeak& peak) { return peak.name == name; });
  };
  for (const char* name : {"f32_fma", "i16_dot", "memory_read"}) {
    ASSERT_NE(find(name), peaks.end()) << name;
  }
  for (const MachinePeak& peak : peaks) {
    EXPECT_GT(peak.one_thread, 0) << peak.name;
    EXPECT_GT(peak.all_threads, 0) << peak.name;
    EXPECT_FALSE(peak.unit.empty());
    EXPECT_FALSE(peak.kernel_set.empty());
  }
}

TEST(MachinePeaksTest, AForcedSetIsMeasuredAndNoBetterOne) {
  const MachinePeakOptions options = {.num_threads = 1,
                                      .round = std::chrono::milliseconds(1),
                                      .isa = "scalar",
                                      .memory_bytes = 1 << 20};
  const auto peaks = MeasureMachinePeaks(options);
  ASSERT_TRUE(peaks.ok()) << peaks.status().ToString();
  ASSERT_FALSE(peaks->empty());
  for (const MachinePeak& peak : *peaks) EXPECT_EQ(peak.kernel_set, "scalar") << peak.name;
}

TEST(MachinePeaksTest, ASetWithoutRatesIsAnError) {
  for (const char* isa : {"reference", "avx3"}) {
    const auto peaks = MeasureMachinePeaks({.num_threads = 1, .isa = isa});
    ASSERT_FALSE(peaks.ok()) << isa;
    EXPECT_EQ(peaks.status().code(), StatusCode::kInvalidArgument) << isa;
  }
}

}  // namespace
}  // namespace pergola::kernels
