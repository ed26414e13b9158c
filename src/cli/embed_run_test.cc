#include "cli/embed_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/command_line.h"
#include "cli/embed_checkpoint.h"
#include "cli/testing/fake_embedder.h"
#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

using testing::FakeEmbedder;

constexpr int kTexts = 500;

class EmbedRunTest : public ::testing::TestWithParam<RowFormat> {
 protected:
  EmbedRunTest() {
    std::string lines;
    for (int i = 0; i < kTexts; ++i) lines += "text " + std::to_string(i) + "\n";
    input_ = folder_.Write("input.txt", lines).string();
    options_.output = (folder_.path() / "rows").string();
    options_.format = GetParam();
    options_.settings = "model a";
    options_.pipeline.chunk_texts = 16;
  }

  int Run(bool resume) {
    options_.resume = resume;
    const auto input = OpenEmbedInput({input_}, {}).value();
    return RunEmbed(*input, embedder_, options_);
  }
  bool HasCheckpoint() const { return std::filesystem::exists(CheckpointPath(options_.output)); }
  // Changes one line of the input.
  void Replace(int line, const std::string& text) {
    std::string lines = ReadFile(input_);
    const std::string old = "text " + std::to_string(line) + "\n";
    lines.replace(lines.find(old), old.size(), text + "\n");
    folder_.Write("input.txt", lines);
  }

  TempFolder folder_;
  FakeEmbedder embedder_;
  std::string input_;
  EmbedRunOptions options_;
};

TEST_P(EmbedRunTest, ResumesAtTheCheckpointAndDropsWhatCameAfter) {
  ASSERT_EQ(Run(false), kExitOk);
  EXPECT_FALSE(HasCheckpoint());
  const std::string whole = ReadFile(options_.output);
  // As a run that was killed leaves it: rows up to the checkpoint, some more, and a torn one.
  const int64_t header = GetParam() == RowFormat::kNpy ? kNpyHeaderBytes : 0;
  for (const int rows : {0, 1, 200, kTexts}) {
    int64_t bytes = header + rows * 12;
    if (GetParam() == RowFormat::kJsonl) {
      bytes = rows == kTexts
                  ? static_cast<int64_t>(whole.size())
                  : static_cast<int64_t>(whole.find("{\"index\":" + std::to_string(rows)));
    }
    folder_.Write("rows",
                  whole.substr(0, std::min(whole.size(), static_cast<size_t>(bytes) + 101)));
    ASSERT_TRUE(WriteCheckpoint(options_.output, {"model a", {rows, bytes, rows}, 0}).ok());
    ASSERT_EQ(Run(true), kExitOk);
    EXPECT_EQ(ReadFile(options_.output), whole) << rows;
    EXPECT_FALSE(HasCheckpoint());
  }
}

TEST_P(EmbedRunTest, ResumesByLengthWithoutACheckpoint) {
  ASSERT_EQ(Run(false), kExitOk);
  const std::string whole = ReadFile(options_.output);
  for (const size_t bytes :
       {size_t{0}, size_t{133}, whole.size() / 2, whole.size() - 1, whole.size()}) {
    folder_.Write("rows", whole.substr(0, bytes));
    ASSERT_EQ(Run(true), kExitOk) << bytes;
    EXPECT_EQ(ReadFile(options_.output), whole) << bytes;
  }
}

TEST_P(EmbedRunTest, FailedRunIsContinuedOnceTheLineIsMended) {
  ASSERT_EQ(Run(false), kExitOk);
  const std::string whole = ReadFile(options_.output);
  Replace(333, "bad");
  EXPECT_EQ(Run(false), kExitFailure);
  EXPECT_TRUE(HasCheckpoint());
  EXPECT_EQ(Run(true), kExitFailure);
  std::string lines = ReadFile(input_);
  lines.replace(lines.find("bad\n"), 4, "text 333\n");
  folder_.Write("input.txt", lines);
  EXPECT_EQ(Run(true), kExitOk);
  EXPECT_EQ(ReadFile(options_.output), whole);
}

TEST_P(EmbedRunTest, SkippedLinesAreNotDoubledWhenResumed) {
  Replace(3, "bad");
  Replace(400, "bad");
  options_.pipeline.skip_bad = true;
  ASSERT_EQ(Run(false), kExitBadInput);
  const std::string whole = ReadFile(options_.output);
  EXPECT_EQ(Run(true), kExitOk) << "nothing is left to do";
  EXPECT_EQ(ReadFile(options_.output), whole);
}

TEST_P(EmbedRunTest, OtherSettingsAreRefused) {
  Replace(333, "bad");
  ASSERT_EQ(Run(false), kExitFailure);
  const std::string before = ReadFile(options_.output);
  options_.settings = "model b";
  EXPECT_EQ(Run(true), kExitFailure);
  EXPECT_EQ(ReadFile(options_.output), before);
}

TEST_P(EmbedRunTest, WithoutResumeTheOutputIsBegunAgain) {
  folder_.Write("rows", std::string(100'000, 'x'));
  ASSERT_EQ(Run(false), kExitOk);
  EXPECT_EQ(InspectRowFile(options_.output, GetParam(), 3).value().rows, kTexts);
}

std::string FormatName(const ::testing::TestParamInfo<RowFormat>& info) {
  const std::string names[] = {"Jsonl", "Npy", "F32"};
  return names[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Formats, EmbedRunTest,
                         ::testing::Values(RowFormat::kJsonl, RowFormat::kNpy, RowFormat::kF32),
                         FormatName);

}  // namespace
}  // namespace pergola::cli
