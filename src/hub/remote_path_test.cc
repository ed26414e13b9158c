#include "hub/remote_path.h"

#include <gtest/gtest.h>

#include <string>

namespace pergola::hub {
namespace {

TEST(RemotePathTest, OrdinaryNamesPass) {
  for (const char* path : {"config.json", "1_Pooling/config.json", "a b/c-d_e.f", ".gitattributes",
                           "mod\xc3\xa8le.json", "..hidden"}) {
    EXPECT_TRUE(CheckRemotePath(path).ok()) << path;
  }
}

TEST(RemotePathTest, WhatCouldLeaveTheFolderIsRefused) {
  for (const char* path :
       {"", "/etc/passwd", "../x", "a/../../x", "a/..", "./a", "a//b", "a/", "a\\..\\b"}) {
    EXPECT_EQ(CheckRemotePath(path).code(), StatusCode::kInvalidArgument) << path;
  }
}

TEST(RemotePathTest, WhatHarmsATerminalOrAFileSystemIsRefused) {
  EXPECT_FALSE(CheckRemotePath(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(CheckRemotePath("a\x1b[2Jb").ok());
  EXPECT_FALSE(CheckRemotePath("a\xff").ok());
  EXPECT_FALSE(CheckRemotePath(std::string(201, 'a')).ok());
  std::string deep = "a";
  for (int i = 0; i < 16; ++i) deep += "/a";
  EXPECT_FALSE(CheckRemotePath(deep).ok());
}

TEST(RemotePathTest, MessageShowsTheNameWithoutItsControlCharacters) {
  EXPECT_EQ(CheckRemotePath("../\x1b[2J\xff").message(), "unsafe file name '../?[2J?': not UTF-8");
}

}  // namespace
}  // namespace pergola::hub
