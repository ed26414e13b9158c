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
  EXPECT_EQ((*keys)->Find("Bearer alpha").number, 0);
  EXPECT_EQ((*keys)->Find("bearer beta").number, 1);
  EXPECT_EQ((*keys)->Find("BEARER   beta ").number, 1);
}

TEST_F(AuthTest, RefusesEverythingElse) {
  Write("alpha\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok());
  for (const std::string_view wrong :
       {"", "Bearer", "Bearer ", "Bearer alph", "Bearer alphax", "alpha", "Basic alpha",
        "Token alpha", "Bearer Alpha", "Bearer # two keys", "Bearer alpha beta"}) {
    EXPECT_EQ((*keys)->Find(wrong).number, -1) << wrong;
  }
}

TEST_F(AuthTest, AKeyByItselfIsTheWholeKey) {
  Write("alpha concurrent=2\nbeta\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE((*keys)->Has("alpha"));
  EXPECT_TRUE((*keys)->Has("beta"));
  for (const std::string_view wrong :
       {"", "alph", "alpha ", "Bearer alpha", "alpha concurrent=2"}) {
    EXPECT_FALSE((*keys)->Has(wrong)) << wrong;
  }
}

TEST_F(AuthTest, ReloadTakesNewKeysAndKeepsTheOldOnAnError) {
  Write("alpha\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok());
  Write("gamma\n");
  EXPECT_TRUE((*keys)->Reload().ok());
  EXPECT_EQ((*keys)->Find("Bearer alpha").number, -1);
  EXPECT_EQ((*keys)->Find("Bearer gamma").number, 0);
  Write("# none\n");
  EXPECT_EQ((*keys)->Reload().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove(path_);
  EXPECT_EQ((*keys)->Reload().code(), StatusCode::kNotFound);
  EXPECT_EQ((*keys)->Find("Bearer gamma").number, 0);
}

TEST_F(AuthTest, NamesTheLineOfABadKeyButNotTheKey) {
  Write("good\nse cret\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_EQ(keys.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(keys.status().message().find("line 2"), std::string::npos);
  EXPECT_EQ(keys.status().message().find("cret"), std::string::npos);
}

TEST_F(AuthTest, ReadsTheLimitsBehindAKey) {
  Write("free\nlimited  requests_per_minute=2\tconcurrent=3 \n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  EXPECT_EQ((*keys)->Find("Bearer free").usage, nullptr);
  const auto usage = (*keys)->Find("Bearer limited").usage;
  ASSERT_NE(usage, nullptr);
  const auto now = service::Clock::now();
  EXPECT_FALSE(usage->Begin(now));
  EXPECT_FALSE(usage->Begin(now));
  EXPECT_EQ(usage->Begin(now)->limit, "requests");
}

TEST_F(AuthTest, WhatAKeyHasUsedOutlivesAReload) {
  Write("limited requests_per_minute=1\n");
  const auto keys = ApiKeys::Load(path_);
  ASSERT_TRUE(keys.ok());
  const auto now = service::Clock::now();
  EXPECT_FALSE((*keys)->Find("Bearer limited").usage->Begin(now));
  Write("other\nlimited requests_per_minute=1\n");
  ASSERT_TRUE((*keys)->Reload().ok());
  EXPECT_EQ((*keys)->Find("Bearer limited").number, 1);
  EXPECT_TRUE((*keys)->Find("Bearer limited").usage->Begin(now));
}

TEST_F(AuthTest, RefusesLimitsThatAreNone) {
  for (const std::string_view line :
       {"a requests_per_minute=0", "a tokens_per_minute=-1", "a concurrent=", "a concurrent",
        "a concurrent=1x", "a rpm=5", "a requests_per_minute=99999999999999999999", "a\na"}) {
    Write(line);
    EXPECT_EQ(ApiKeys::Load(path_).status().code(), StatusCode::kInvalidArgument) << line;
  }
}

}  // namespace
}  // namespace pergola::gateway
