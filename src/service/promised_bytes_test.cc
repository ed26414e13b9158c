#include "service/promised_bytes.h"

#include <gtest/gtest.h>

namespace pergola::service {
namespace {

TEST(PromisedBytesTest, GivesBackWhatIsLetGo) {
  PromisedBytes budget(100);
  {
    const auto promise = budget.Take(100);
    ASSERT_TRUE(promise.ok());
    EXPECT_EQ(budget.taken(), 100);
    EXPECT_EQ(budget.Take(1).status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(budget.taken(), 100);
  }
  EXPECT_EQ(budget.taken(), 0);
  EXPECT_TRUE(budget.Take(1).ok());
}

TEST(PromisedBytesTest, WhatNeverFitsIsTheRequestsFault) {
  PromisedBytes budget(100);
  EXPECT_EQ(budget.Take(101).status().code(), StatusCode::kInvalidArgument);
}

TEST(PromisedBytesTest, TheLastEighthIsForSmallAnswers) {
  PromisedBytes budget(int64_t{80} << 20);
  const auto large = budget.Take(int64_t{69} << 20);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(budget.Take(int64_t{2} << 20).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(budget.Take(int64_t{1} << 20).ok());
}

TEST(PromisedBytesTest, AnAnswerMayOutliveTheBudget) {
  std::shared_ptr<const void> promise;
  {
    PromisedBytes budget(10);
    promise = *budget.Take(10);
  }
  promise.reset();
}

TEST(PromisedBytesTest, CountsTheRowsOfEveryOutput) {
  ModelInfo info;
  info.widths = {4, 3, 2, 1, 0};
  const Sequence whole{.ids = {1, 2, 3}};
  const Sequence chunks{.ids = {1, 2, 3}, .spans = {{0, 1}, {1, 3}}};
  EXPECT_EQ(AnswerBytes(info, {OutputKind::kEmbedding}, {{whole, chunks}}), 4 * 4 * 3);
  EXPECT_EQ(AnswerBytes(info, {OutputKind::kTokenVectors, OutputKind::kLogits}, {{whole}}),
            4 * (3 * 3 + 2));
}

}  // namespace
}  // namespace pergola::service
