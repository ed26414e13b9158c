#include "core/cpu_features.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cfenv>
#include <fstream>
#include <string>
#include <thread>

namespace pergola {
namespace {

// The kernel's own list, as " name name ... "; empty where there is none.
std::string KernelFlags() {
#if defined(__aarch64__)
  const std::string key = "Features";
#else
  const std::string key = "flags";
#endif
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(line.find(':') + 1) + " ";
  }
  return "";
}

TEST(CpuFeaturesTest, AgreesWithTheKernel) {
  std::string flags = KernelFlags();
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  for (std::string_view name : KnownCpuFeatures()) {
    std::string kernel_name(name);
    if (name == "avx512vnni" || name == "avx512bf16") kernel_name.insert(6, "_");
    if (name == "avxvnni") kernel_name = "avx_vnni";
    EXPECT_EQ(CpuHas(name), flags.find(" " + kernel_name + " ") != std::string::npos) << name;
  }
}

TEST(CpuFeaturesTest, UnknownNamesAreAbsent) {
  EXPECT_FALSE(CpuHas("avx9000"));
  EXPECT_FALSE(CpuHas(""));
}

TEST(CpuFeaturesTest, CoreCountAndNameAreUsable) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_FALSE(CpuModelName().empty());
}

// What `taskset` sets.
TEST(CpuFeaturesTest, CoresOutsideTheAffinityMaskAreNotCounted) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) GTEST_SKIP() << "no affinity mask";
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST(CpuFeaturesTest, DefaultFloatEnvironmentRestoresTheRounding) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  volatile float one = 1.0f, tiny = 1e-10f;
  {
    const DefaultFloatEnvironment environment;
    EXPECT_EQ(one + tiny, 1.0f);
  }
  EXPECT_GT(one + tiny, 1.0f);
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
}

}  // namespace
}  // namespace pergola
