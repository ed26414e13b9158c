#include "hub/file_sink.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>

#include "core/testing/temp_folder.h"

namespace pergola::hub {
namespace {

TEST(FileSinkTest, ContinuesAndTruncates) {
  const TempFolder folder;
  const auto path = folder.path() / "sub" / "file";
  {
    FileSink sink = FileSink::Open(path).value();
    EXPECT_TRUE(sink.Write("hello").ok());
    EXPECT_TRUE(sink.Close().ok());
  }
  FileSink sink = FileSink::Open(path).value();
  EXPECT_EQ(sink.bytes(), 5);
  EXPECT_TRUE(sink.Write(" world").ok());
  EXPECT_TRUE(sink.Truncate(2).ok());
  EXPECT_TRUE(sink.Write("y").ok());
  EXPECT_TRUE(sink.Close().ok());
  EXPECT_EQ(ReadFile(path), "hey");
}

// A file-size limit fails writes like a full disk does, and needs no disk of its own.
TEST(FileSinkTest, FullDiskIsResourceExhausted) {
  const TempFolder folder;
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  FileSink sink = FileSink::Open(folder.path() / "file").value();
  const Status status = sink.Write(std::string(2000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(status.message().starts_with("disk full: cannot write '")) << status.message();
  EXPECT_EQ(sink.bytes(), 1000);
}

TEST(CheckFreeSpaceTest, MoreThanAnyDiskIsRefusedWithBothNumbers) {
  const TempFolder folder;
  EXPECT_TRUE(CheckFreeSpace(folder.path() / "not" / "there", 1).ok());
  const Status status =
      CheckFreeSpace(folder.path(), std::numeric_limits<int64_t>::max() - (1 << 30));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find(" are free"), std::string::npos);
}

TEST(HumanBytesTest, ShowsThreeDigits) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.00 kB");
  EXPECT_EQ(HumanBytes(90868376), "90.9 MB");
  EXPECT_EQ(HumanBytes(999999), "1.00 MB");
  EXPECT_EQ(HumanBytes(1211486072), "1.21 GB");
}

}  // namespace
}  // namespace pergola::hub
