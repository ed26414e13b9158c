#include "cli/embed_pipeline.h"

#include <gtest/gtest.h>

#include "cli/ordered_queue.h"
#include "cli/testing/fake_embedder.h"
#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

using testing::FakeEmbedder;

// What the file must hold for these records; an empty optional is a skipped one.
std::string Expected(const std::vector<std::string>& texts, int64_t first = 0) {
  std::string file;
  for (size_t i = static_cast<size_t>(first); i < texts.size(); ++i) {
    if (texts[i].starts_with("bad")) continue;
    int sum = 0;
    for (const char c : texts[i]) sum += static_cast<unsigned char>(c);
    file += "{\"index\":" + std::to_string(i) + ",\"embedding\":[" +
            std::to_string(texts[i].size()) + "," + std::to_string(sum) + ",0.1]}\n";
  }
  return file;
}

std::vector<std::string> ManyTexts(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    texts.push_back("text " + std::to_string(i) + std::string(static_cast<size_t>(i % 97), 'x'));
  }
  return texts;
}

class EmbedPipelineTest : public ::testing::Test {
 protected:
  Status RunTexts(const std::vector<std::string>& texts) {
    const auto input = MakeArgumentInput(texts);
    RowWriter writer = RowWriter::Open(path(), RowFormat::kJsonl, 3, std::nullopt).value();
    EmbedHooks hooks;
    hooks.on_bad = [this](const InputRecord& record) { bad_.push_back(record.where); };
    totals_ = {};
    return RunEmbedPipeline(*input, embedder_, writer, options_, hooks, &totals_);
  }
  std::string path() const { return (folder_.path() / "rows").string(); }

  TempFolder folder_;
  FakeEmbedder embedder_;
  EmbedPipelineOptions options_;
  EmbedTotals totals_;
  std::vector<std::string> bad_;
};

TEST_F(EmbedPipelineTest, OrderIsKeptWhateverTheWorkersAndChunks) {
  const std::vector<std::string> texts = ManyTexts(5000);
  const std::string expected = Expected(texts);
  for (const int workers : {1, 2, 7}) {
    for (const size_t chunk_texts : {1, 3, 256}) {
      options_.workers = workers;
      options_.chunk_texts = chunk_texts;
      ASSERT_TRUE(RunTexts(texts).ok());
      ASSERT_EQ(ReadFile(path()), expected) << workers << " " << chunk_texts;
      EXPECT_EQ(totals_.rows, 5000);
      EXPECT_EQ(totals_.records, 5000);
    }
  }
}

TEST_F(EmbedPipelineTest, NothingInNothingOut) {
  EXPECT_TRUE(RunTexts({}).ok());
  EXPECT_EQ(ReadFile(path()), "");
  EXPECT_EQ(totals_.records, 0);
}

TEST_F(EmbedPipelineTest, BadTextsAreFoundAndSkipped) {
  std::vector<std::string> texts = ManyTexts(300);
  texts[0] = texts[7] = texts[8] = texts[299] = "bad";
  options_.skip_bad = true;
  ASSERT_TRUE(RunTexts(texts).ok());
  EXPECT_EQ(ReadFile(path()), Expected(texts));
  EXPECT_EQ(bad_, (std::vector<std::string>{"text 1", "text 8", "text 9", "text 300"}));
  EXPECT_EQ(totals_.skipped, 4);
  EXPECT_EQ(totals_.rows, 296);
  EXPECT_EQ(totals_.records, 300);
}

TEST_F(EmbedPipelineTest, FirstBadTextEndsTheRunAfterTheRowsBeforeIt) {
  std::vector<std::string> texts = ManyTexts(300);
  texts[41] = "bad";
  const Status status = RunTexts(texts);
  EXPECT_EQ(status, InvalidArgumentError("text 42: input is bad"));
  texts.resize(41);
  EXPECT_EQ(ReadFile(path()), Expected(texts));
  EXPECT_EQ(totals_.records, 41);
}

TEST_F(EmbedPipelineTest, BrokenEngineEndsTheRunAndWritesNoneOfItsChunk) {
  std::vector<std::string> texts = ManyTexts(300);
  texts[101] = "broken";
  options_.chunk_texts = 10;
  options_.skip_bad = true;
  EXPECT_EQ(RunTexts(texts).code(), StatusCode::kInternal);
  texts.resize(100);
  EXPECT_EQ(ReadFile(path()), Expected(texts));
  EXPECT_EQ(totals_.records, 100);
}

TEST_F(EmbedPipelineTest, RecordsOfAnEarlierRunAreNotComputed) {
  const std::vector<std::string> texts = ManyTexts(100);
  options_.first_record = 60;
  ASSERT_TRUE(RunTexts(texts).ok());
  EXPECT_EQ(ReadFile(path()), Expected(texts, 60));
  EXPECT_EQ(totals_.rows, 40);
  EXPECT_EQ(totals_.records, 100);
  options_.first_record = 100;
  embedder_.calls = 0;
  ASSERT_TRUE(RunTexts(texts).ok());
  EXPECT_EQ(embedder_.calls, 0);
  EXPECT_EQ(totals_.records, 100);
}

TEST_F(EmbedPipelineTest, ErrorOfAHookEndsTheRun) {
  const auto input = MakeArgumentInput(ManyTexts(5000));
  RowWriter writer = RowWriter::Open(path(), RowFormat::kJsonl, 3, std::nullopt).value();
  EmbedHooks hooks;
  hooks.on_chunk = [](const EmbedTotals&) { return ResourceExhaustedError("full"); };
  const Status status =
      RunEmbedPipeline(*input, embedder_, writer, {.chunk_texts = 1}, hooks, &totals_);
  EXPECT_EQ(status, ResourceExhaustedError("full"));
  EXPECT_EQ(totals_.rows, 1);
}

TEST(OrderedQueueTest, GivesOutInOrderAndStops) {
  OrderedQueue<int> queue(3);
  EXPECT_TRUE(queue.Push(2, 12));
  EXPECT_TRUE(queue.Push(0, 10));
  EXPECT_TRUE(queue.Push(1, 11));
  EXPECT_EQ(queue.Pop(), 10);
  EXPECT_EQ(queue.Pop(), 11);
  queue.Close();
  EXPECT_EQ(queue.Pop(), 12);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  queue.Cancel();
  EXPECT_FALSE(queue.Push(3, 13));
}

}  // namespace
}  // namespace pergola::cli
