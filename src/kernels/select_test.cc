#include "kernels/select.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/cpu_features.h"

namespace pergola::kernels {
namespace {

// Sets PERGOLA_FORCE_ISA while it lives.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* value) {
    if (const char* old = std::getenv("PERGOLA_FORCE_ISA")) saved_ = old;
    setenv("PERGOLA_FORCE_ISA", value, 1);
  }
  ~ForcedIsa() {
    if (saved_.empty()) {
      unsetenv("PERGOLA_FORCE_ISA");
    } else {
      setenv("PERGOLA_FORCE_ISA", saved_.c_str(), 1);
    }
  }

 private:
  std::string saved_;
};

TEST(SelectTest, ReferenceIsLastAndAlwaysUsable) {
  const auto sets = ListKernelSets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.back().name, "reference");
  EXPECT_TRUE(sets.back().usable);
}

TEST(SelectTest, EverySetIsMadeByNameOrSaysWhyNot) {
  for (const KernelSet& set : ListKernelSets()) {
    auto ops = MakeOps({.num_threads = 1, .isa = std::string(set.name)});
    if (set.usable) {
      ASSERT_TRUE(ops.ok()) << ops.status().ToString();
      EXPECT_EQ((*ops)->name(), set.name);
      EXPECT_EQ((*ops)->threads().num_threads(), 1);
    } else {
      EXPECT_EQ(ops.status().code(), StatusCode::kFailedPrecondition);
      EXPECT_NE(ops.status().message().find(set.declined), std::string::npos);
    }
  }
}

TEST(SelectTest, UnknownNamesListTheKnownOnes) {
  const auto ops = MakeOps({.num_threads = 1, .isa = "avx9000"});
  EXPECT_EQ(ops.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ops.status().message().find("avx9000"), std::string::npos);
  EXPECT_NE(ops.status().message().find("reference"), std::string::npos);
}

TEST(SelectTest, TheVariableForcesASetAndWrongValuesAreErrors) {
  {
    const ForcedIsa forced("reference");
    auto ops = MakeOps({.num_threads = 1});
    ASSERT_TRUE(ops.ok());
    EXPECT_EQ((*ops)->name(), "reference");
  }
  const ForcedIsa forced("nonsense");
  const auto ops = MakeOps({.num_threads = 1});
  EXPECT_EQ(ops.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ops.status().message().find("PERGOLA_FORCE_ISA"), std::string::npos);
}

KernelSet MadeUp(std::string_view name, bool usable, bool verified) {
  KernelSet set;
  set.name = name;
  set.usable = usable;
  set.declined = usable ? "" : "needs luck";
  set.verified = verified;
  return set;
}

TEST(SelectTest, OnlyAForcedSetMayBeUnverified) {
  const std::vector<KernelSet> sets = {MadeUp("new", true, false), MadeUp("wide", false, true),
                                       MadeUp("old", true, true), MadeUp("plain", true, true)};
  const auto name = [&](std::string_view wanted) {
    auto picked = PickKernelSet(sets, wanted, "kernel set");
    return picked.ok() ? std::string((*picked)->name) : picked.status().message();
  };
  EXPECT_EQ(name(""), "old");
  EXPECT_EQ(name("new"), "new");
  EXPECT_EQ(name("plain"), "plain");
  EXPECT_NE(name("wide").find("needs luck"), std::string::npos);
  EXPECT_FALSE(PickKernelSet({sets.data(), 2}, "", "kernel set").ok());
}

TEST(SelectTest, TheChosenSetIsVerified) {
  if (std::getenv("PERGOLA_FORCE_ISA") != nullptr) GTEST_SKIP() << "a set is forced";
  auto ops = MakeOps({.num_threads = 1});
  ASSERT_TRUE(ops.ok());
  for (const KernelSet& set : ListKernelSets()) {
    if (set.name == (*ops)->name()) {
      EXPECT_TRUE(set.verified) << set.name;
    }
  }
}

TEST(SelectTest, ZeroThreadsMeansOnePerUsableCore) {
  auto ops = MakeOps({.num_threads = 0, .isa = "reference"});
  ASSERT_TRUE(ops.ok());
  EXPECT_EQ((*ops)->threads().num_threads(), UsableCores());
  EXPECT_FALSE(MakeOps({.num_threads = -1}).ok());
}

}  // namespace
}  // namespace pergola::kernels
