#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pergola::eval {
namespace {

TEST(MetricsTest, NdcgIsTheGainOverThatOfTheBestOrder) {
  // Worked out by hand: gains 3, 0, 2 of relevant documents 3, 2, 1.
  const std::vector<double> gains = {3, 0, 2};
  const std::vector<double> all = {1, 3, 2};
  const double dcg = 3 + 2 / std::log2(4.0);
  const double ideal = 3 + 2 / std::log2(3.0) + 1 / std::log2(4.0);
  EXPECT_DOUBLE_EQ(Ndcg(gains, all, 10), dcg / ideal);
  EXPECT_DOUBLE_EQ(Ndcg(gains, all, 1), 1.0);
  EXPECT_EQ(Ndcg(gains, {}, 10), 0.0);
}

TEST(MetricsTest, RecallAndReciprocalRankLookAtTheFirstPlacesOnly) {
  const std::vector<double> gains = {0, 0, 1, 1};
  EXPECT_EQ(Recall(gains, 4, 3), 0.25);
  EXPECT_EQ(Recall(gains, 4, 100), 0.5);
  EXPECT_EQ(Recall(gains, 0, 3), 0.0);
  EXPECT_DOUBLE_EQ(ReciprocalRank(gains, 10), 1.0 / 3.0);
  EXPECT_EQ(ReciprocalRank(gains, 2), 0.0);
}

TEST(MetricsTest, SpearmanSharesRanksOfEqualValues) {
  const std::vector<double> a = {1, 2, 2, 3};
  const std::vector<double> b = {10, 20, 30, 40};
  // Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3: covariance 4.5, variances 4.5 and 5.
  EXPECT_DOUBLE_EQ(Spearman(a, b), 4.5 / std::sqrt(4.5 * 5.0));
  const std::vector<double> squares = {1, 4, 9, 16};
  EXPECT_DOUBLE_EQ(Spearman(b, squares), 1.0);
  EXPECT_LT(Pearson(b, squares), 1.0);
  const std::vector<double> constant = {7, 7, 7, 7};
  EXPECT_EQ(Pearson(a, constant), 0.0);
}

TEST(MetricsTest, AgreementIsTheMeanOverlap) {
  EXPECT_DOUBLE_EQ(Agreement({{1, 2}, {3, 4}}, {{2, 1}, {4, 5}}), 0.75);
}

TEST(MetricsTest, QuantilesAreValuesOfTheList) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(Quantile(values, 0.0), 1.0);
  EXPECT_EQ(Quantile(values, 0.5), 3.0);
  EXPECT_EQ(Quantile(values, 1.0), 5.0);
}

}  // namespace
}  // namespace pergola::eval
