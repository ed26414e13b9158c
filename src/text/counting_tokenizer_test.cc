#include "text/counting_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace pergola::text {
namespace {

TEST(CountingTokenizerTest, CountsTextsAndPairsAndChangesNothing) {
  auto tokenizer = tokenizers::LoadTokenizerJson(std::string(PERGOLA_TEST_DATA) +
                                                 "/golden/tiny/bert/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  TextModelConfig config;
  config.tokenizer = std::move(*tokenizer);
  config.max_tokens = 64;
  config.vocab_size = static_cast<int64_t>(config.tokenizer->vocab_size());
  const TextModel plain(std::move(config));
  const CountedText counted = CountTokenizerCalls(plain);
  EXPECT_EQ(counted.text->Prepare("a b", {})->sequence.ids, plain.Prepare("a b", {})->sequence.ids);
  EXPECT_EQ(*counted.calls, 1U);
  EXPECT_EQ(counted.text->PreparePair("a", "b", {})->sequence.ids,
            plain.PreparePair("a", "b", {})->sequence.ids);
  EXPECT_EQ(*counted.calls, 2U);
  EXPECT_TRUE(counted.text->PrepareIds({5, 6}, {}).ok());
  EXPECT_EQ(counted.text->tokenizer().vocab_size(), plain.tokenizer().vocab_size());
  EXPECT_EQ(*counted.calls, 2U) << "ids are not tokenised";
}

}  // namespace
}  // namespace pergola::text
