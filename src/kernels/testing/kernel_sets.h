// The kernel sets that a test of the Ops seam runs on: all usable ones, or the one of
// PERGOLA_FORCE_ISA.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/select.h"

namespace pergola::kernels::testing {

inline std::vector<std::string> TestedSets() {
  const char* forced = std::getenv("PERGOLA_FORCE_ISA");
  std::vector<std::string> names;
  for (const KernelSet& set : ListKernelSets()) {
    if (!set.usable || (forced != nullptr && set.name != forced)) continue;
    names.emplace_back(set.name);
  }
  return names;
}

// One test for every kernel set; `ops()` on any number of threads.
class KernelSetTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Ops> MakeSet(int num_threads) const {
    auto made = MakeOps({.num_threads = num_threads, .isa = GetParam()});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }
  std::unique_ptr<Ops> MakeOracle() const {
    auto made = MakeOps({.num_threads = 1, .isa = "reference"});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }
};

// GoogleTest takes no hyphens.
inline std::string SetName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace pergola::kernels::testing
