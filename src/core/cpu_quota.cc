#include "core/cpu_quota.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace pergola {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// The quota of one group; infinity when there is none.
double GroupQuota(const std::string& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream v2(folder + "/cpu.max");
      v2 >> quota >> period && quota != "max" && period > 0) {
    const double cores = std::strtod(quota.c_str(), nullptr) / period;
    return cores > 0 ? cores : kNoQuota;
  }
  double v1_quota = 0;
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  if (quota_file >> v1_quota && period_file >> period && v1_quota > 0 && period > 0) {
    return v1_quota / period;
  }
  return kNoQuota;
}

// Whether "cpu,cpuacct" lists the controller "cpu"; cpuset and cpuacct have no quota.
bool ListsCpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::string_view name = controllers.substr(0, controllers.find(','));
    if (name == "cpu") return true;
    controllers.remove_prefix(std::min(controllers.size(), name.size() + 1));
  }
  return false;
}

}  // namespace

double ReadCpuQuota(const std::filesystem::path& group_list, const std::filesystem::path& mount) {
  double quota = kNoQuota;
  std::ifstream groups(group_list);
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !ListsCpu(controllers)) continue;
    const std::string root = controllers.empty() ? mount.string() : (mount / controllers).string();
    std::string path = line.substr(second + 1);
    while (true) {
      quota = std::min(quota, GroupQuota(root + (path == "/" ? "" : path)));
      if (path.empty() || path == "/") break;
      const size_t parent = path.rfind('/');
      path.erase(parent == std::string::npos ? 0 : parent);
    }
  }
  return quota;
}

int CoresWithin(int cores, double quota) {
  if (!(quota < cores)) return cores;
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

}  // namespace pergola
