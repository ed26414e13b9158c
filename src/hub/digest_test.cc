#include "hub/digest.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"

namespace pergola::hub {
namespace {

TEST(DigestTest, Sha256IsThatOfTheStandard) {
  // FIPS 180-2, appendix B.1.
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const TempFolder folder;
  EXPECT_EQ(Sha256("abc"), abc);
  EXPECT_EQ(Sha256OfFile(folder.Write("abc", "abc")).value(), abc);
}

TEST(DigestTest, FileOfSeveralBlocksHashesLikeItsBytes) {
  const TempFolder folder;
  std::string bytes((3 << 20) + 17, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  EXPECT_EQ(Sha256OfFile(folder.Write("big", bytes)).value(), Sha256(bytes));
}

TEST(DigestTest, GitBlobHashIsGits) {
  const TempFolder folder;
  // printf 'hello\n' | git hash-object --stdin
  EXPECT_EQ(GitBlobSha1OfFile(folder.Write("hello", "hello\n")).value(),
            "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(DigestTest, MissingFileIsNotFoundAndNamed) {
  const Result<std::string> digest = Sha256OfFile("/nonexistent/file");
  ASSERT_FALSE(digest.ok());
  EXPECT_EQ(digest.status().code(), StatusCode::kNotFound);
  EXPECT_NE(digest.status().message().find("/nonexistent/file"), std::string::npos);
}

}  // namespace
}  // namespace pergola::hub
