#include "cli/backend_directory.h"

#include <gtest/gtest.h>

namespace pergola::cli {
namespace {

class BackendDirectoryTest : public ::testing::Test {
 protected:
  BackendDirectory Make(const std::vector<std::string>& targets) {
    auto directory =
        BackendDirectory::Make(targets,
                               [this](const std::string& name) -> Result<std::vector<std::string>> {
                                 asked_.push_back(name);
                                 if (!failure_.ok()) return failure_;
                                 return addresses_;
                               },
                               {});
    EXPECT_TRUE(directory.ok()) << directory.status().ToString();
    return std::move(*directory);
  }
  static std::vector<std::string> Addresses(const BackendDirectory& directory) {
    std::vector<std::string> addresses;
    for (const Backend& backend : directory.backends()) addresses.push_back(backend.address);
    return addresses;
  }

  std::vector<std::string> asked_;
  std::vector<std::string> addresses_;
  Status failure_;
};

TEST_F(BackendDirectoryTest, ReplicasAppearAndVanishWithTheName) {
  addresses_ = {"10.0.0.7", "[fd00::8]"};
  BackendDirectory directory = Make({"dns:///pergola-server:42668"});
  EXPECT_TRUE(directory.has_names());
  EXPECT_TRUE(directory.Refresh());
  EXPECT_EQ(asked_, std::vector<std::string>{"pergola-server"});
  EXPECT_EQ(Addresses(directory), (std::vector<std::string>{"10.0.0.7:42668", "[fd00::8]:42668"}));
  const auto stays = directory.backends()[1].service;
  EXPECT_FALSE(directory.Refresh()) << "nothing has changed";
  addresses_ = {"[fd00::8]", "10.0.0.9"};
  EXPECT_TRUE(directory.Refresh());
  EXPECT_EQ(Addresses(directory), (std::vector<std::string>{"[fd00::8]:42668", "10.0.0.9:42668"}));
  EXPECT_EQ(directory.backends()[0].service, stays) << "keeps its connection";
}

TEST_F(BackendDirectoryTest, AFailingResolverChangesNothing) {
  addresses_ = {"10.0.0.7"};
  BackendDirectory directory = Make({"dns:///name:1", "10.0.0.1:2"});
  directory.Refresh();
  failure_ = UnavailableError("no resolver");
  EXPECT_FALSE(directory.Refresh());
  EXPECT_EQ(directory.status().code(), StatusCode::kUnavailable);
  failure_ = OkStatus();
  addresses_ = {};
  EXPECT_FALSE(directory.Refresh());
  EXPECT_FALSE(directory.status().ok());
  EXPECT_EQ(Addresses(directory), (std::vector<std::string>{"10.0.0.7:1", "10.0.0.1:2"}));
}

TEST_F(BackendDirectoryTest, FixedAddressesAreNotResolvedAndCountOnce) {
  BackendDirectory directory = Make({"10.0.0.1:2", "[::1]:3", "10.0.0.1:2"});
  EXPECT_FALSE(directory.has_names());
  EXPECT_TRUE(directory.Refresh());
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(directory.backends().size(), 2u);
}

TEST_F(BackendDirectoryTest, RefusesANameWithoutPort) {
  for (const char* target :
       {"dns:///name", "dns:///", "dns:///:1", "dns:///name:", "dns:///name:x"}) {
    EXPECT_EQ(BackendDirectory::Make({target}, nullptr, {}).status().code(),
              StatusCode::kInvalidArgument)
        << target;
  }
}

}  // namespace
}  // namespace pergola::cli
