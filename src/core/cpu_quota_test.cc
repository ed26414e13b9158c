#include "core/cpu_quota.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/testing/temp_folder.h"

namespace pergola {
namespace {

class CpuQuotaTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) { folder_.Write(file, text); }
  double Read() const { return ReadCpuQuota(folder_.path() / "list", folder_.path() / "cgroup"); }

  TempFolder folder_;
};

TEST_F(CpuQuotaTest, NoFilesMeanNoQuota) {
  EXPECT_TRUE(std::isinf(Read()));
  Write("list", "0::/\nnonsense\n");
  EXPECT_TRUE(std::isinf(Read()));
  Write("cgroup/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(Read()));
  Write("cgroup/cpu.max", "broken");
  EXPECT_TRUE(std::isinf(Read()));
}

TEST_F(CpuQuotaTest, AContainerSeesItsOwnGroupAsTheRoot) {
  Write("list", "0::/\n");
  Write("cgroup/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(Read(), 1.5);
  EXPECT_EQ(CoresWithin(64, Read()), 2);
}

TEST_F(CpuQuotaTest, TheTightestAncestorCounts) {
  Write("list", "0::/kubepods/pod1/main\n");
  Write("cgroup/kubepods/cpu.max", "1600000 100000\n");
  Write("cgroup/kubepods/pod1/cpu.max", "300000 100000\n");
  Write("cgroup/kubepods/pod1/main/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(Read(), 3.0);
}

TEST_F(CpuQuotaTest, Version1IsReadWhereItsControllerIsMounted) {
  Write("list", "9:cpuset:/a\n5:cpu,cpuacct:/docker/a\n1:name=systemd:/a\n");
  Write("cgroup/cpuset/a/cpu.cfs_quota_us", "1000");
  Write("cgroup/cpuset/a/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(Read()));
  // Inside a container the path of the list is the host's; the container's own group is the root.
  Write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000");
  Write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(Read(), 2.5);
  Write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  EXPECT_TRUE(std::isinf(Read()));
}

TEST_F(CpuQuotaTest, CoresAreRoundedUpAndNeverMoreThanThereAre) {
  EXPECT_EQ(CoresWithin(64, 1.5), 2);
  EXPECT_EQ(CoresWithin(64, 1.0), 1);
  EXPECT_EQ(CoresWithin(64, 0.1), 1);
  EXPECT_EQ(CoresWithin(2, 16.0), 2);
  EXPECT_EQ(CoresWithin(2, INFINITY), 2);
}

}  // namespace
}  // namespace pergola
