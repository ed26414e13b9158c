#include "service/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pergola::service {
namespace {

TEST(ScoresTest, ClassesThatExcludeEachOtherSumToOne) {
  const std::vector<float> logits = {1000.0f, 999.0f, 998.0f};  // exp overflows without the shift
  const std::vector<double> scores = LabelScores(logits, false, false);
  const double sum = 1.0 + std::exp(-1.0) + std::exp(-2.0);
  EXPECT_NEAR(scores[0], 1.0 / sum, 1e-15);
  EXPECT_NEAR(scores[1], std::exp(-1.0) / sum, 1e-15);
  EXPECT_NEAR(scores[0] + scores[1] + scores[2], 1.0, 1e-15);
}

TEST(ScoresTest, OneClassOrIndependentOnesAreSigmoids) {
  const std::vector<float> one = {2.0f};
  EXPECT_DOUBLE_EQ(LabelScores(one, false, false)[0], 1.0 / (1.0 + std::exp(-2.0)));
  const std::vector<float> two = {0.0f, -1000.0f};
  EXPECT_EQ(LabelScores(two, true, false), (std::vector<double>{0.5, 0.0}));
  EXPECT_EQ(LabelScores(two, true, true), (std::vector<double>{0.0, -1000.0}));
}

TEST(ScoresTest, CosineOfAZeroVectorIsZero) {
  const std::vector<float> zero = {0, 0}, x = {3, 4}, y = {4, 3};
  EXPECT_EQ(Cosine(zero, x), 0.0);
  EXPECT_DOUBLE_EQ(Cosine(x, y), 24.0 / 25.0);
}

TEST(ScoresTest, MaxSimTakesTheNearestTokenAndSkipsTheFirst) {
  const Rows query{3, 2, {9, 9, 2, 0, 0, 3}};
  const Rows document{3, 2, {0, 1, 5, 0, 3, 4}};
  // Query token 1 finds (5, 0): 1. Query token 2 finds (3, 4): 0.8; (0, 1) does not count.
  EXPECT_DOUBLE_EQ(MaxSim(query, document, 1, true), 1.8);
  EXPECT_DOUBLE_EQ(MaxSim(query, document, 1, false), 0.9);
  EXPECT_DOUBLE_EQ(MaxSim(query, document, 0, true), MaxSim(query, document, 0, false) * 3);
  EXPECT_EQ(MaxSim(query, document, 3, false), 0.0);
}

}  // namespace
}  // namespace pergola::service
