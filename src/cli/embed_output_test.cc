#include "cli/embed_output.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

constexpr float kRows[][2] = {{0.5f, -1.0f}, {0.1f, 2.0f}, {3.0f, 4.0f}};

void WriteRows(const std::string& path, RowFormat format, int rows) {
  RowWriter writer = RowWriter::Open(path, format, 2, std::nullopt).value();
  for (int row = 0; row < rows; ++row) writer.Append(row, kRows[row]);
  EXPECT_TRUE(writer.Commit().ok());
  EXPECT_EQ(writer.rows(), rows);
  EXPECT_EQ(writer.bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
}

class RowFileTest : public ::testing::TestWithParam<RowFormat> {
 protected:
  std::string path() const { return (folder_.path() / "rows").string(); }
  TempFolder folder_;
};

TEST_P(RowFileTest, ContinuedAfterAnyCutIsTheSameFile) {
  WriteRows(path(), GetParam(), 3);
  const std::string whole = ReadFile(path());
  const int64_t header = GetParam() == RowFormat::kNpy ? kNpyHeaderBytes : 0;
  for (auto bytes = static_cast<int64_t>(whole.size()); bytes >= header; --bytes) {
    const std::string cut = whole.substr(0, static_cast<size_t>(bytes));
    folder_.Write("rows", cut);
    const Result<RowFileState> state = InspectRowFile(path(), GetParam(), 2);
    ASSERT_TRUE(state.ok()) << bytes << ": " << state.status().ToString();
    EXPECT_EQ(state->rows, state->records);
    EXPECT_LE(state->bytes, bytes);
    RowWriter writer = RowWriter::Open(path(), GetParam(), 2, *state).value();
    for (int64_t row = state->records; row < 3; ++row) writer.Append(row, kRows[row]);
    EXPECT_TRUE(writer.Commit().ok());
    ASSERT_EQ(ReadFile(path()), whole) << bytes;
  }
}

TEST_P(RowFileTest, RowsOfAnotherWidthAreRefusedWhereTheFileTells) {
  WriteRows(path(), GetParam(), 3);
  const Result<RowFileState> state = InspectRowFile(path(), GetParam(), 3);
  EXPECT_EQ(state.ok(), GetParam() == RowFormat::kF32);
}

std::string FormatName(const ::testing::TestParamInfo<RowFormat>& info) {
  const std::string names[] = {"Jsonl", "Npy", "F32"};
  return names[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Formats, RowFileTest,
                         ::testing::Values(RowFormat::kJsonl, RowFormat::kNpy, RowFormat::kF32),
                         FormatName);

TEST(RowWriterTest, JsonLinesHoldIndexAndShortestFloats) {
  const TempFolder folder;
  const std::string path = (folder.path() / "rows").string();
  WriteRows(path, RowFormat::kJsonl, 2);
  EXPECT_EQ(ReadFile(path),
            "{\"index\":0,\"embedding\":[0.5,-1]}\n{\"index\":1,\"embedding\":[0.1,2]}\n");
}

TEST(RowWriterTest, NpyHeaderIsThatOfTheFormatAndStatesTheRows) {
  const TempFolder folder;
  const std::string path = (folder.path() / "rows").string();
  WriteRows(path, RowFormat::kNpy, 3);
  const std::string file = ReadFile(path);
  ASSERT_EQ(file.size(), 128u + 24u);
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]), 118);
  EXPECT_EQ(file.substr(10, 61), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }  ");
  EXPECT_EQ(file[127], '\n');
  EXPECT_EQ(std::memcmp(file.data() + 128, kRows, 24), 0);
}

TEST(RowWriterTest, SkippedRecordsLeaveAGapInTheIndex) {
  const TempFolder folder;
  const std::string path = (folder.path() / "rows").string();
  RowWriter writer = RowWriter::Open(path, RowFormat::kJsonl, 2, std::nullopt).value();
  writer.Append(0, kRows[0]);
  writer.Append(5, kRows[1]);
  EXPECT_TRUE(writer.Flush().ok());
  const RowFileState state = InspectRowFile(path, RowFormat::kJsonl, 2).value();
  EXPECT_EQ(state.rows, 2);
  EXPECT_EQ(state.records, 6);
}

TEST(RowWriterTest, NpyNeedsAFileOfItsOwn) {
  EXPECT_EQ(RowWriter::Open("/dev/null", RowFormat::kNpy, 2, std::nullopt).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(InspectRowFileTest, ForeignFilesAreRefused) {
  const TempFolder folder;
  const std::string text = folder.Write("a", "hello\nworld\n").string();
  EXPECT_FALSE(InspectRowFile(text, RowFormat::kJsonl, 2).ok());
  EXPECT_FALSE(InspectRowFile(text, RowFormat::kNpy, 2).ok());
}

}  // namespace
}  // namespace pergola::cli
