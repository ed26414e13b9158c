#include "core/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace pergola {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "mapped_file_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string folder_;
};

std::string Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, GivesTheBytesOfTheFile) {
  const std::string path = Write("a", std::string("one\0two", 7));
  Result<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(Text(*file), std::string("one\0two", 7));
  EXPECT_EQ(file->path(), path);
  for (AccessPattern pattern : {AccessPattern::kNormal, AccessPattern::kSequential,
                                AccessPattern::kRandom, AccessPattern::kWillNeed}) {
    file->Advise(pattern);
  }
  EXPECT_EQ(Text(*file), std::string("one\0two", 7));
}

TEST_F(MappedFileTest, BytesStayWhereTheyAreWhenMoved) {
  Result<MappedFile> first = MappedFile::Open(Write("a", "first"));
  Result<MappedFile> second = MappedFile::Open(Write("b", "second"));
  ASSERT_TRUE(first.ok() && second.ok());
  const std::byte* where = first->bytes().data();
  MappedFile moved = std::move(*first);
  EXPECT_EQ(moved.bytes().data(), where);
  EXPECT_TRUE(first->bytes().empty());
  moved = std::move(*second);
  EXPECT_EQ(Text(moved), "second");
}

TEST_F(MappedFileTest, BytesOutliveTheNameInTheFolder) {
  const std::string path = Write("a", "still here");
  Result<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::remove(path);
  EXPECT_EQ(Text(*file), "still here");
}

TEST_F(MappedFileTest, RefusesWhatIsNotAFileWithBytes) {
  const Status missing = MappedFile::Open(folder_ + "/none").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find(folder_ + "/none"), std::string::npos);
  EXPECT_EQ(MappedFile::Open(folder_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::Open(Write("empty", "")).status().code(), StatusCode::kInvalidArgument);
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Status status = MappedFile::Open(pipe).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace pergola
