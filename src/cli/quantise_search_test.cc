#include "cli/quantise_search.h"

#include <gtest/gtest.h>

#include <map>

namespace pergola::cli {
namespace {

using engine::QuantisationPlan;

// Units whose errors add up: 4 bits cost what the table says, 8 bits a tenth of it, halves nothing.
QuantiseSearch AddingSearch(double min_cosine, int* measurements) {
  const std::map<std::string, double> costs = {
      {"a", 0.01}, {"b", 0.08}, {"c", 0.02}, {"d", 0.04}, {"e", 0.001}};
  QuantiseSearch search;
  for (const auto& [unit, cost] : costs) search.start[unit] = DType::kQ4_0;
  search.larger = {DType::kQ8_0, DType::kF16};
  search.min_cosine = min_cosine;
  search.measure = [costs, measurements](const QuantisationPlan& plan) -> Result<Closeness> {
    ++*measurements;
    double cosine = 1.0;
    for (const auto& [unit, type] : plan) {
      const double factor = type == DType::kQ4_0 ? 1.0 : type == DType::kQ8_0 ? 0.1 : 0.0;
      cosine -= factor * costs.at(unit);
    }
    return Closeness{cosine - 0.001, cosine};
  };
  return search;
}

TEST(QuantiseSearchTest, NothingIsRaisedWhereAllIsGoodEnough) {
  int measurements = 0;
  const QuantiseSearch search = AddingSearch(0.8, &measurements);
  EXPECT_EQ(*ChooseTypes(search), search.start);
  EXPECT_EQ(measurements, 1);
}

TEST(QuantiseSearchTest, TheDearestUnitsAreRaisedAndNoMoreThanSuffice) {
  int measurements = 0;
  // All cost 0.151; without those of b and d (0.012 left of 0.12) 0.043.
  const auto plan = ChooseTypes(AddingSearch(0.95, &measurements));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(*plan, (QuantisationPlan{{"a", DType::kQ4_0},
                                     {"b", DType::kQ8_0},
                                     {"c", DType::kQ4_0},
                                     {"d", DType::kQ8_0},
                                     {"e", DType::kQ4_0}}));
  EXPECT_LE(measurements, 1 + 5 + 1 + 3);
}

TEST(QuantiseSearchTest, GoesOnFromTheNextTypeWhereOneIsNotEnough) {
  int measurements = 0;
  // All in 8 bits cost 0.0151; with b in halves 0.0071.
  const auto plan = ChooseTypes(AddingSearch(0.99, &measurements));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->at("b"), DType::kF16);
  EXPECT_EQ(plan->at("d"), DType::kQ8_0);
  EXPECT_EQ(plan->at("e"), DType::kQ8_0);
}

TEST(QuantiseSearchTest, WhatCannotBeReachedIsAnErrorWithTheBest) {
  int measurements = 0;
  const auto plan = ChooseTypes(AddingSearch(0.9995, &measurements));
  EXPECT_EQ(plan.status().code(), StatusCode::kOutOfRange);
  EXPECT_NE(plan.status().message().find("0.9990000"), std::string::npos);
}

}  // namespace
}  // namespace pergola::cli
