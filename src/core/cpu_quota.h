// The CPU quota of a process's control group: how a container is held to 1.5 of the machine's
// cores.
//
//   const double cores = ReadCpuQuota("/proc/self/cgroup", "/sys/fs/cgroup");
//   const int threads = CoresWithin(64, cores);
#pragma once

#include <filesystem>

namespace pergola {

// The smallest quota, in cores, of the groups that `group_list` names and of their ancestors;
// infinity when none is set or nothing can be read. `group_list` is laid out as /proc/self/cgroup:
// a line "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1; other controllers are
// passed over. `mount`: where the file system of control groups is mounted. A path that does not
// exist below it, as in a container that sees its own group as the root, counts by its ancestors.
double ReadCpuQuota(const std::filesystem::path& group_list, const std::filesystem::path& mount);

// How many of `cores` (>= 1) a process with that quota keeps busy: rounded up, at least 1.
int CoresWithin(int cores, double quota);

}  // namespace pergola
