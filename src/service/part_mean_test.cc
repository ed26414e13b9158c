#include "service/part_mean.h"

#include <gtest/gtest.h>

#include <vector>

namespace pergola::service {
namespace {

TEST(PartMeanTest, OnePartStaysAsItIs) {
  const std::vector<float> row = {3, -4, 0.1f};
  EXPECT_EQ(MeanOfParts(std::vector<PartRow>{{row, 7}}, true), row);
}

TEST(PartMeanTest, TokensAreTheWeights) {
  const std::vector<float> a = {3, 4}, b = {0, 2};
  EXPECT_EQ(MeanOfParts(std::vector<PartRow>{{a, 3}, {b, 1}}, false),
            (std::vector<float>{2.25f, 3.5f}));
}

TEST(PartMeanTest, RowsOfUnitLengthCountByTheirDirection) {
  const std::vector<float> a = {3, 4}, b = {0, 2}, zero = {0, 0};
  // (0.6, 0.8) and (0, 1), then with nothing beside them.
  EXPECT_EQ(MeanOfParts(std::vector<PartRow>{{a, 3}, {b, 1}}, true),
            (std::vector<float>{0.45f, 0.85f}));
  EXPECT_EQ(MeanOfParts(std::vector<PartRow>{{b, 1}, {zero, 1}}, true),
            (std::vector<float>{0.0f, 0.5f}));
}

}  // namespace
}  // namespace pergola::service
