// A text that is cut early must be cut where the whole, tokenised, would have been cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "tokenizers/tokenizer.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

std::unique_ptr<Tokenizer> LoadGolden(const std::string& path) {
  auto tokenizer = LoadTokenizerJson(std::string(PERGOLA_TEST_DATA) + "/golden/" + path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

// Long texts in which chunks end at all kinds of places.
std::string RandomText(std::mt19937* random, size_t bytes) {
  static const std::vector<std::string> kParts = {"hello",
                                                  " ",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "\n\n",
                                                  ".",
                                                  ",",
                                                  "re\u0301sume\u0301",
                                                  "\u00e9",
                                                  "a",
                                                  "ab",
                                                  "aaaa",
                                                  "q",
                                                  "\u4e2d",
                                                  "the ",
                                                  "-",
                                                  "[MASK]",
                                                  "<mask>",
                                                  "<bos",
                                                  "\u2581",
                                                  "\u20ac",
                                                  "\x01",
                                                  "\U0001F600",
                                                  "=",
                                                  "x",
                                                  "\u3000",
                                                  "world ",
                                                  "key ",
                                                  "new york",
                                                  "\u0915\u093f",
                                                  "\uac01"};
  std::string text;
  // A few parts at a time, so that some texts have no white space for long.
  while (text.size() < bytes) {
    const std::string& a = kParts[(*random)() % kParts.size()];
    const std::string& b = kParts[(*random)() % kParts.size()];
    for (size_t i = (*random)() % 400; i > 0; --i) text += (*random)() % 5 == 0 ? a : b;
  }
  return text;
}

class TruncationPlaceTest : public testing::TestWithParam<const char*> {};

TEST_P(TruncationPlaceTest, CutsAsTheWholeTextWouldBeCut) {
  const auto tokenizer = LoadGolden(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    const std::string text = RandomText(&random, round % 5 == 0 ? 60000 : 12000);
    Encoding whole;
    ASSERT_TRUE(tokenizer->Encode(text, {.with_offsets = true}, &whole).ok());
    const size_t added = tokenizer->num_added_tokens(false);
    const size_t closing = whole.special_mask.back();
    for (const size_t limit : {size_t{3}, size_t{17}, size_t{256}, size_t{1500}, size_t{4000}}) {
      for (const TruncationSide side : {TruncationSide::kRight, TruncationSide::kLeft}) {
        Encoding cut;
        const EncodeOptions options{.with_offsets = true, .max_tokens = limit, .side = side};
        ASSERT_TRUE(tokenizer->Encode(text, options, &cut).ok());
        ASSERT_EQ(cut.truncated, whole.ids.size() > limit);
        ASSERT_LE(cut.total_tokens, whole.ids.size());
        ASSERT_TRUE(!cut.total_is_exact || cut.total_tokens == whole.ids.size());
        const size_t kept = std::min(limit, whole.ids.size());
        ASSERT_EQ(cut.ids.size(), kept);
        const size_t opening = added - closing;
        const size_t surplus = side == TruncationSide::kLeft ? whole.ids.size() - kept : 0;
        for (size_t i = 0; i < kept; ++i) {
          size_t from = i < opening ? i : i + surplus;
          if (i >= kept - closing) from = whole.ids.size() - (kept - i);
          ASSERT_EQ(cut.ids[i], whole.ids[from]) << "token " << i << " limit " << limit;
          // The reference takes what is first after the cut for the start of the text, which keeps
          // a space that was put there.
          if (i == opening && surplus > 0) continue;
          ASSERT_EQ(cut.offsets[i], whole.offsets[from]) << "token " << i << " limit " << limit;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, TruncationPlaceTest,
    testing::Values("tiny/bert/tokenizer.json", "tiny/bert-cls/tokenizer.json",
                    "tiny/mpnet/tokenizer.json", "tiny/gemma3-embed/tokenizer.json",
                    "tokenizers/bert_added.json", "tokenizers/bert_rstrip.json",
                    "tokenizers/nfkc.json", "tokenizers/bpe_unk.json",
                    "tokenizers/bpe_unk_apart.json", "tokenizers/bpe_no_unk.json",
                    "tokenizers/bpe_prefix.json", "tokenizers/split_merged_with_next.json",
                    "tiny/qwen3-embed/tokenizer.json", "tiny/roberta/tokenizer.json",
                    "tiny/modernbert/tokenizer.json", "tokenizers/byte_level_prefix.json",
                    "tokenizers/byte_level_o200k.json", "tokenizers/byte_level_digits.json"),
    [](const auto& model) {
      std::string name = model.param;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(TruncationTest, ReadsOnlyWhatItNeedsOfAHugeText) {
  for (const char* path : {"tiny/bert/tokenizer.json", "tiny/gemma3-embed/tokenizer.json",
                           "tiny/qwen3-embed/tokenizer.json", "tiny/xlm-roberta/tokenizer.json"}) {
    const auto tokenizer = LoadGolden(path);
    ASSERT_NE(tokenizer, nullptr);
    std::string text;
    while (text.size() < (size_t{8} << 20)) text += "some words, a sentence. ";
    const size_t middle = text.size() / 2;
    text[middle] = '\xff';  // far from both ends: never seen
    for (const TruncationSide side : {TruncationSide::kRight, TruncationSide::kLeft}) {
      Encoding encoding;
      ASSERT_TRUE(tokenizer->Encode(text, {.max_tokens = 512, .side = side}, &encoding).ok());
      EXPECT_EQ(encoding.ids.size(), 512u);
      EXPECT_TRUE(encoding.truncated);
      EXPECT_FALSE(encoding.total_is_exact);
      EXPECT_GT(encoding.total_tokens, 512u);
    }
    Encoding encoding;
    const Status status = tokenizer->Encode(text, {}, &encoding);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "the text is not valid UTF-8 at byte " + std::to_string(middle));
  }
}

TEST(TruncationTest, KeepsTheClosingTokenWhenNothingElseFits) {
  const auto tokenizer = LoadGolden("tiny/bert/tokenizer.json");
  ASSERT_NE(tokenizer, nullptr);
  Encoding encoding;
  for (const size_t limit : {size_t{0}, size_t{1}, size_t{2}}) {
    ASSERT_TRUE(tokenizer->Encode("hello", {.max_tokens = limit}, &encoding).ok());
    const std::vector<TokenId> both = {2, 3};
    EXPECT_EQ(encoding.ids,
              std::vector<TokenId>(both.end() - static_cast<ptrdiff_t>(limit), both.end()));
    EXPECT_TRUE(encoding.truncated);
  }
}

TEST(TruncationTest, GivesTheOddTokenToTheLongerOfTwoHugeTexts) {
  const auto tokenizer = LoadGolden("tiny/bert/tokenizer.json");
  ASSERT_NE(tokenizer, nullptr);
  std::string shorter;
  for (int i = 0; i < 5000; ++i) shorter += "a ";
  const std::string longer = shorter + "a";
  Encoding encoding;
  const EncodeOptions options{.max_tokens = 14};
  const auto first_segment = [&] {
    return std::count(encoding.type_ids.begin(), encoding.type_ids.end(), 0);
  };
  ASSERT_TRUE(tokenizer->EncodePair(longer, shorter, options, &encoding).ok());
  EXPECT_EQ(first_segment(), 2 + 6);
  ASSERT_TRUE(tokenizer->EncodePair(shorter, longer, options, &encoding).ok());
  EXPECT_EQ(first_segment(), 2 + 5);
  ASSERT_TRUE(tokenizer->EncodePair(shorter, shorter, options, &encoding).ok());
  EXPECT_EQ(first_segment(), 2 + 5);
}

}  // namespace
}  // namespace pergola::tokenizers
