#include "kernels/machine_peaks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pergola::kernels {
namespace {

TEST(MachinePeaksTest, EveryLimitHasItsRateAndItsUnit) {
  const auto peaks = MeasureMachinePeaks(
      {.num_threads = 2, .round = std::chrono::milliseconds(1), .memory_bytes = 1 << 20});
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

}  // namespace
}  // namespace pergola::kernels
