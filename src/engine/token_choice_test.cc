#include "engine/token_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace pergola::engine {
namespace {

TEST(TokenChoiceTest, SelectsTheBestInOrderAndTheLowerIdOfEquals) {
  const std::vector<float> logits = {1, 5, 3, 5, -2, 3};
  const TopTokens top = SelectTop(logits, 4);
  EXPECT_EQ(top.tokens, (std::vector<TokenScore>{{1, 5.0f}, {3, 5.0f}, {2, 3.0f}, {5, 3.0f}}));
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  EXPECT_NEAR(top.log_sum_exp, std::log(sum), 1e-12);
  EXPECT_NEAR(top.Probability(0), std::exp(5.0) / sum, 1e-12);
  EXPECT_EQ(SelectTop(logits, 100).tokens.size(), logits.size());
}

TEST(TokenChoiceTest, AgreesWithSorting) {
  std::mt19937 random(3);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000);
  std::vector<TokenScore> sorted;
  for (size_t id = 0; id < logits.size(); ++id) {
    sorted.push_back({static_cast<int32_t>(id), logits[id]});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.logit > b.logit; });
  sorted.resize(50);
  EXPECT_EQ(SelectTop(logits, 50).tokens, sorted);
}

TEST(TokenChoiceTest, TemperatureDividesInTheProbability) {
  const std::vector<float> logits = {2, 0};
  const TopTokens top = SelectTop(logits, 2, 2.0f);
  EXPECT_NEAR(top.Probability(0, 2.0f), std::exp(1.0) / (std::exp(1.0) + 1), 1e-12);
}

TEST(SamplerTest, WithoutTemperatureTakesTheBest) {
  Sampler sampler({.temperature = 0, .seed = 1});
  EXPECT_TRUE(sampler.greedy());
  EXPECT_EQ(sampler.Draw(std::vector<float>{0, 3, 1}), 1);
}

TEST(SamplerTest, DrawsByProbabilityAndRepeatsWithTheSeed) {
  const std::vector<float> logits = {std::log(0.7f), std::log(0.2f), std::log(0.1f)};
  Sampler first({.temperature = 1, .seed = 42}), second({.temperature = 1, .seed = 42});
  std::vector<int> counts(3);
  for (int i = 0; i < 20000; ++i) {
    const int32_t token = first.Draw(logits);
    EXPECT_EQ(token, second.Draw(logits));
    ++counts[static_cast<size_t>(token)];
  }
  EXPECT_NEAR(counts[0], 14000, 300);  // 4.6 standard deviations
  EXPECT_NEAR(counts[1], 4000, 260);
  EXPECT_NEAR(counts[2], 2000, 195);
}

TEST(SamplerTest, TopKAndTopPKeepOnlyTheBest) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  Sampler top_k({.temperature = 1, .top_k = 1, .seed = 5});
  Sampler top_p({.temperature = 1, .top_p = 0.6f, .seed = 5});
  bool second_seen = false;
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(top_k.Draw(logits), 0);
    const int32_t token = top_p.Draw(logits);
    EXPECT_NE(token, 2);
    second_seen |= token == 1;
  }
  EXPECT_TRUE(second_seen);
}

}  // namespace
}  // namespace pergola::engine
