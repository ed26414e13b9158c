#include "engine/step_speed.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/testing/fake_runner.h"

namespace pergola::engine {
namespace {

TEST(StepSpeedTest, TheFewestTokensThatAreNearTheBestCount) {
  const std::vector<StepSpeed> speeds = {{32, 50}, {64, 90}, {128, 95}, {256, 100}, {512, 99}};
  EXPECT_EQ(SmallestStep(speeds), 128);
  EXPECT_EQ(SmallestStep(speeds, 0.5), 32);
  EXPECT_EQ(SmallestStep(speeds, 1), 256);
  EXPECT_EQ(SmallestStep({}), 0);
}

TEST(StepSpeedTest, EverySizeRunsInSequencesThatTheModelTakes) {
  std::vector<std::vector<std::vector<int32_t>>> batches;
  FakeRunner runner(nullptr, &batches);
  const auto speeds =
      MeasureSteps(runner, /*vocab_size=*/50, /*max_tokens=*/20, std::chrono::nanoseconds(0));
  ASSERT_TRUE(speeds.ok()) << speeds.status().message();
  ASSERT_EQ(speeds->size(), 7u);
  EXPECT_EQ(speeds->front().tokens, 32);
  EXPECT_EQ(speeds->back().tokens, 2048);
  std::set<size_t> sizes;
  for (const auto& batch : batches) {
    size_t tokens = 0;
    for (const std::vector<int32_t>& ids : batch) {
      tokens += ids.size();
      EXPECT_LE(ids.size(), 20u);
      for (const int32_t id : ids) EXPECT_TRUE(id >= 0 && id < 50) << id;
    }
    sizes.insert(tokens);
  }
  EXPECT_EQ(sizes, (std::set<size_t>{32, 64, 128, 256, 512, 1024, 2048}));
  for (const StepSpeed& speed : *speeds) EXPECT_GT(speed.tokens_per_s, 0);
}

TEST(StepSpeedTest, AnEngineThatFailsIsAnError) {
  std::vector<std::vector<std::vector<int32_t>>> batches;
  FakeRunner runner(nullptr, &batches);
  EXPECT_EQ(MeasureSteps(runner, 100, 32, std::chrono::nanoseconds(0)).status().code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace pergola::engine
