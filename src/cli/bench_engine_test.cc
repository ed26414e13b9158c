#include "cli/bench_engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace pergola::cli {
namespace {

constexpr const char* kTinyModel = PERGOLA_TEST_DATA "/golden/tiny/bert";

TEST(BenchEngineTest, EveryCellIsCheckedAndTimed) {
  EngineBenchOptions options;
  options.path = kTinyModel;
  options.lengths = {8, 100000, 16};  // the model takes fewer: left out
  options.batches = {1, 3};
  options.threads = {1, 2};
  options.seconds = std::chrono::duration<double>(0.001);
  std::vector<EngineBenchCell> cells;
  const Status status =
      BenchEngine(options, [&](const EngineBenchCell& cell) { cells.push_back(cell); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(cells.size(), 8u);
  EXPECT_EQ(cells[0].threads, 1);
  EXPECT_EQ(cells[1].batch, 3);
  EXPECT_EQ(cells[2].length, 16);
  EXPECT_EQ(cells[4].threads, 2);
  for (const EngineBenchCell& cell : cells) {
    EXPECT_GT(cell.tokens_per_s, 0);
    EXPECT_GT(cell.ms_p50, 0);
    EXPECT_GE(cell.ms_p99, cell.ms_p50);
    EXPECT_GT(cell.cosine.value_or(0), 0.99999);
    ASSERT_EQ(static_cast<int64_t>(cell.ids.size()), cell.batch);
    EXPECT_EQ(static_cast<int64_t>(cell.ids.back().size()), cell.length);
    EXPECT_EQ(cell.vectors.size(), cell.ids.size());
  }
  EXPECT_EQ(cells[0].vectors[0], cells[5].vectors[0]);
  EXPECT_NE(cells[1].vectors[0], cells[1].vectors[1]);  // neither batch nor threads matter
}

TEST(BenchEngineTest, ATextOfOneTokenHasNoSpecialOnesAndNothingIsCheckedWhenToldSo) {
  EngineBenchOptions options;
  options.path = kTinyModel;
  options.lengths = {1, 2, 3};
  options.batches = {2};
  options.threads = {1};
  options.seconds = std::chrono::duration<double>(0.001);
  options.checked = false;
  std::vector<EngineBenchCell> cells;
  const Status status =
      BenchEngine(options, [&](const EngineBenchCell& cell) { cells.push_back(cell); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(cells.size(), 3u);
  for (const EngineBenchCell& cell : cells) {
    EXPECT_FALSE(cell.cosine.has_value());
    EXPECT_EQ(static_cast<int64_t>(cell.ids[0].size()), cell.length);
  }
  EXPECT_NE(cells[0].ids[0][0], cells[2].ids[0][0]);  // a word; what begins every text
}

TEST(BenchEngineTest, AMissingModelIsAnError) {
  EngineBenchOptions options;
  options.path = "/nonexistent";
  EXPECT_FALSE(BenchEngine(options, [](const EngineBenchCell&) {}).ok());
}

TEST(BenchEngineTest, TextsAreDistinctAndTheSameInEveryRun) {
  EXPECT_EQ(BenchText(3, 20), BenchText(3, 20));
  EXPECT_NE(BenchText(3, 20), BenchText(4, 20));
}

}  // namespace
}  // namespace pergola::cli
