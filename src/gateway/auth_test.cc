#include "gateway/auth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace pergola::gateway {
namespace {

class AuthTest : public ::testing::Test {
 protected:
  AuthTest()
      : path_(std::filesystem::temp_directory_path() /
              ("pergola_keys_" + std::to_string(::getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~AuthTest() override { std::filesystem::remove(path_); }
  void Write(std::string_view text) { std::ofstream(path_) << text; }

  const std::filesystem::path path_;
};

TEST_F(AuthTest, FindsTheKeysOfTheFile) {
  Write("# two keys\n\n  alpha \r\nbeta\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  EXPECT_EQ((*keys)->size(), 2u);
  EXPECT_EQ((*keys)->Find("Bearer alpha"), 0);
  EXPECT_EQ((*keys)->Find("bearer beta"), 1);
  EXPECT_EQ((*keys)->Find("BEARER   beta "), 1);
}

TEST_F(AuthTest, RefusesEverythingElse) {
  Write("alpha\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok());
  for (const std::string_view wrong :
       {"", "Bearer", "Bearer ", "Bearer alph", "Bearer alphax", "alpha", "Basic alpha",
        "Token alpha", "Bearer Alpha", "Bearer # two keys", "Bearer alpha beta"}) {
    EXPECT_EQ((*keys)->Find(wrong), -1) << wrong;
  }
}

TEST_F(AuthTest, ReloadTakesNewKeysAndKeepsTheOldOnAnError) {
  Write("alpha\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok());
  Write("gamma\n");
  EXPECT_TRUE((*keys)->Reload().ok());
  EXPECT_EQ((*keys)->Find("Bearer alpha"), -1);
  EXPECT_EQ((*keys)->Find("Bearer gamma"), 0);
  Write("# none\n");
  EXPECT_EQ((*keys)->Reload().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove(path_);
  EXPECT_EQ((*keys)->Reload().code(), StatusCode::kNotFound);
  EXPECT_EQ((*keys)->Find("Bearer gamma"), 0);
}

TEST_F(AuthTest, NamesTheLineOfABadKeyButNotTheKey) {
  Write("good\nse cret\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_EQ(keys.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(keys.status().message().find("line 2"), std::string::npos);
  EXPECT_EQ(keys.status().message().find("cret"), std::string::npos);
}

}  // namespace
}  // namespace pergola::gateway
