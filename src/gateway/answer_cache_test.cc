#include "gateway/answer_cache.h"

#include <gtest/gtest.h>

#include "gateway/routes.h"
#include "gateway/testing/fake_model.h"

namespace pergola::gateway {
namespace {

class AnswerCacheTest : public ::testing::Test {
 protected:
  // The answer to a text of one word.
  EmbedAnswer Answer(int32_t id) {
    EmbedAnswer answer;
    answer.served = &model_.served;
    answer.width = testing::kFakeWidth;
    answer.sequences = 1;
    answer.embeddings = {{0, 0}};
    service::InferenceRequest request;
    request.sequences = {{.ids = {id}}};
    answer.outputs = testing::FakeService::Compute(request).sequences;
    return answer;
  }

  testing::FakeModel model_ = testing::MakeFakeModel();
  const Route* route_ = FindRoute("POST", "/v1/embeddings");
  const Route* other_ = FindRoute("POST", "/embed");
};

TEST_F(AnswerCacheTest, KeepsRowsAsTheyAreWritten) {
  AnswerCache cache(size_t{1} << 20);
  EmbedAnswer answer = Answer(5);
  std::string before;
  answer.AppendRow(0, {}, &before);
  cache.Put(route_, "body", &answer);
  EXPECT_EQ(cache.Get(other_, "body"), nullptr);
  EXPECT_EQ(cache.Get(route_, "Body"), nullptr);
  const auto kept = cache.Get(route_, "body");
  ASSERT_NE(kept, nullptr);
  EXPECT_TRUE(kept->outputs.empty());
  std::string after;
  kept->AppendRow(0, {}, &after);
  EXPECT_EQ(after, before);
  EXPECT_GT(cache.bytes(), after.size());
}

TEST_F(AnswerCacheTest, IsBoundedAndForgetsWhatWasAskedLongestAgo) {
  constexpr size_t kCapacity = 64 << 10;
  AnswerCache cache(kCapacity);
  for (int32_t id = 0; id < 1000; ++id) {
    EmbedAnswer answer = Answer(id % 100);
    cache.Put(route_, "body " + std::to_string(id), &answer);
    EXPECT_LE(cache.bytes(), kCapacity);
    EXPECT_NE(cache.Get(route_, "body 0"), nullptr) << "is asked for again and again";
  }
  EXPECT_EQ(cache.Get(route_, "body 1"), nullptr);
  EXPECT_NE(cache.Get(route_, "body 999"), nullptr);
  EmbedAnswer large = Answer(1);
  cache.Put(route_, std::string(kCapacity / 16, 'x'), &large);
  EXPECT_EQ(cache.Get(route_, std::string(kCapacity / 16, 'x')), nullptr);
}

TEST_F(AnswerCacheTest, ABodyComesAgainWhenItCameBefore) {
  AnswerCache cache(1 << 20);
  EXPECT_FALSE(cache.ComesAgain(route_, "a"));
  EXPECT_TRUE(cache.ComesAgain(route_, "a"));
  EXPECT_FALSE(cache.ComesAgain(other_, "a"));
  const std::string longest(AnswerCache::kLongestBody + 1, 'x');
  EXPECT_FALSE(cache.ComesAgain(route_, longest));
  EXPECT_FALSE(cache.ComesAgain(route_, longest));
  AnswerCache none(0);
  EXPECT_FALSE(none.ComesAgain(route_, "a"));
  EXPECT_FALSE(none.ComesAgain(route_, "a"));
}

}  // namespace
}  // namespace pergola::gateway
