#include "cli/frame_keys.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

TEST(FrameKeysTest, KeysOfEitherFileMayAskAndOthersAreCounted) {
  const TempFolder folder;
  const std::string api = folder.Write("api", "# clients\nsk-1 concurrent=2\nsk-2\n");
  const std::string join = folder.Write("join", "sk-join\nthe key of member 3\n");
  const auto keys = FrameKeys::Read(api, join);
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  int refused = 0;
  const auto admits = (*keys)->Admission([&] { ++refused; });
  for (const char* key : {"sk-1", "sk-2", "sk-join"}) EXPECT_TRUE(admits(key)) << key;
  EXPECT_EQ(refused, 0);
  for (const char* key :
       {"", "sk-", "sk-1 concurrent=2", "# clients", "SK-1", "the key of member 3"}) {
    EXPECT_FALSE(admits(key)) << key;
  }
  EXPECT_EQ(refused, 6);
}

TEST(FrameKeysTest, ReloadTakesNewKeysAndKeepsTheOneJoinedWith) {
  const TempFolder folder;
  const std::string api = folder.Write("api", "sk-1\n");
  const std::string join = folder.Write("join", "sk-join\n");
  const auto keys = FrameKeys::Read(api, join);
  ASSERT_TRUE(keys.ok());
  const auto admits = (*keys)->Admission([] {});
  folder.Write("api", "sk-2\n");
  folder.Write("join", "sk-other\n");
  EXPECT_TRUE((*keys)->Reload().ok());
  EXPECT_FALSE(admits("sk-1"));
  EXPECT_TRUE(admits("sk-2"));
  EXPECT_TRUE(admits("sk-join"));
  folder.Write("api", "# none\n");
  EXPECT_EQ((*keys)->Reload().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(admits("sk-2"));
}

TEST(FrameKeysTest, WithoutFilesEverybodyMayAsk) {
  const auto keys = FrameKeys::Read("", "");
  ASSERT_TRUE(keys.ok());
  EXPECT_FALSE((*keys)->any());
  EXPECT_FALSE((*keys)->Admission([] {}));
  EXPECT_TRUE((*keys)->Reload().ok());
  EXPECT_EQ(FrameKeys::Read("/none/keys", "").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pergola::cli
