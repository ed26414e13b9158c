#include "cli/whole_file.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

TEST(KeyFileTest, TheKeyIsTheFirstLineWithoutBlanks) {
  const TempFolder folder;
  for (const char* content : {"key-1", "key-1\n", "key-1\r\nsecond\n", " \tkey-1 \n\n"}) {
    const std::string path = folder.Write("keys", content);
    EXPECT_EQ(ReadKeyFile(path).value(), "key-1") << content;
  }
}

TEST(KeyFileTest, AFileWithoutAKeyIsAnError) {
  const TempFolder folder;
  EXPECT_EQ(ReadKeyFile((folder.path() / "none").string()).status().code(), StatusCode::kNotFound);
  for (const char* content : {"", "\nkey-1\n", " \n", "schl\xc3\xbcssel\n", "key 1\n", "a\x01"}) {
    const std::string path = folder.Write("keys", content);
    EXPECT_EQ(ReadKeyFile(path).status().code(), StatusCode::kInvalidArgument) << content;
  }
}

}  // namespace
}  // namespace pergola::cli
