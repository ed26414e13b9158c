#include "core/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace pergola {
namespace {

TEST(ProcessMemoryTest, SeesWhatTheProcessTouches) {
  const MemoryUse before = ReadMemoryUse();
  std::vector<char> block(size_t{64} << 20, 1);
  const MemoryUse after = ReadMemoryUse();
  EXPECT_EQ(block[12345], 1);
  EXPECT_GE(after.private_bytes - before.private_bytes, int64_t{60} << 20);
  EXPECT_GE(after.peak_resident_bytes, after.resident_bytes);
  EXPECT_GT(after.machine_bytes, after.available_bytes);
}

}  // namespace
}  // namespace pergola
