#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {
namespace {

// A tokenizer.json with `entries` beside a small WordPiece model.
std::string WithEntries(const std::string& entries) {
  return R"({"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
         R"("max_input_chars_per_word":100,"vocab":{"[UNK]":0,"a":1,"##b":2}})" +
         (entries.empty() ? "" : "," + entries) + "}";
}

TEST(TokenizerJsonTest, ReadsASmallModel) {
  const auto tokenizer = ParseTokenizerJson(WithEntries(""));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  Encoding encoding;
  ASSERT_TRUE((*tokenizer)->Encode("ab", {}, &encoding).ok());
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ((*tokenizer)->vocab_size(), 3u);
  EXPECT_EQ((*tokenizer)->IdToToken(2), "##b");
  EXPECT_EQ((*tokenizer)->IdToToken(3), "");
  EXPECT_EQ((*tokenizer)->TokenToId("none"), -1);
  const auto decoded = (*tokenizer)->Decode(std::vector<TokenId>{1, 3}, false);
  EXPECT_EQ(decoded.status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(decoded.status().message(), "token id 3 at index 1 is outside the vocabulary of 3");
}

TEST(TokenizerJsonTest, IgnoresTruncationAndPadding) {
  const auto tokenizer = ParseTokenizerJson(
      WithEntries(R"("truncation":{"max_length":1,"strategy":"LongestFirst","stride":0},)"
                  R"("padding":{"strategy":{"Fixed":8},"direction":"Right","pad_id":0})"));
  ASSERT_TRUE(tokenizer.ok());
  Encoding encoding;
  ASSERT_TRUE((*tokenizer)->Encode("ab", {}, &encoding).ok());
  EXPECT_EQ(encoding.ids.size(), 2u);
}

TEST(TokenizerJsonTest, NamesKindAndPlaceOfWhatItDoesNotSupport) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("normalizer":{"type":"Other"})", "kind 'Other' at normalizer "},
      {R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Nmt"}]})",
       "kind 'Nmt' at normalizer.normalizers[1] "},
      {R"("normalizer":{"type":"Replace","pattern":{"Regex":"a+"},"content":""})",
       "kind 'Regex a+' at normalizer.pattern "},
      {R"("pre_tokenizer":{"type":"UnicodeScripts"})", "kind 'UnicodeScripts' at pre_tokenizer "},
      {R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated"})",
       "kind 'Regex \\w+' at pre_tokenizer.pattern "},
      {R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},)"
       R"({"type":"Digits"}]})",
       "kind 'ByteLevel before another part' at pre_tokenizer "},
      {R"("post_processor":{"type":"Other"})", "kind 'Other' at post_processor "},
      {R"("decoder":{"type":"CTC"})", "kind 'CTC' at decoder "}};
  for (const auto& [entries, message] : cases) {
    const Status status = ParseTokenizerJson(WithEntries(entries)).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << entries;
    EXPECT_TRUE(status.message().starts_with(message)) << status.message();
  }
  EXPECT_EQ(ParseTokenizerJson(R"({"model":{"type":"WordLevel"}})").status().code(),
            StatusCode::kUnimplemented);
}

TEST(TokenizerJsonTest, RefusesWhatContradictsItself) {
  const std::string bpe = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":)";
  const std::pair<std::string, const char*> cases[] = {
      {"", "not valid JSON"},
      {"[]", "not a JSON object"},
      {"{}", "model is missing"},
      {std::string(200, '['), "not valid JSON"},
      {R"({"model":{"type":"WordPiece","vocab":{"a":0},"max_input_chars_per_word":9}})",
       "WordPiece: the unknown token '[UNK]' is not in the vocabulary"},
      {R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})",
       "model.vocab: tokens 'a' and 'b' both have id 0"},
      {R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})",
       "model.vocab: token 'a' is listed twice"},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})",
       "model.vocab: token 'a' has id -1"},
      {R"({"model":{"type":"BPE","vocab":{"a":999999999},"merges":[]}})",
       "model.vocab: token 'a' has id 999999999"},
      {R"({"model":{"type":"BPE","vocab":{"a":0.5},"merges":[]}})", "model: field 'vocab'"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"}})",
       "BPE: the unknown token 'u' is not in the vocabulary"},
      {bpe + R"(["a c"]}})", "BPE: merge 0 of 'a' and 'c'"},
      {bpe + R"([["a","b"],["b","a"]]}})", "BPE: merge 1 of 'b' and 'a'"},
      {bpe + R"([["a"]]}})", "model.merges[0] is not a pair of tokens"},
      {bpe + R"(["a b c"]}})", "model.merges[0] is not a pair of tokens"},
      {WithEntries(R"("post_processor":{"type":"BertProcessing","sep":["x",3],"cls":["y",0]})"),
       "post_processor: special token id 3 is outside the vocabulary of 3"},
      {WithEntries(R"("post_processor":{"type":"TemplateProcessing","special_tokens":{},)"
                   R"("single":[],"pair":[]})"),
       "post_processor: field 'single'"},
      {WithEntries(R"("normalizer":{"type":"Replace","pattern":{"String":""},"content":""})"),
       "normalizer: the pattern is empty"},
      {WithEntries(R"("added_tokens":[{"content":"x","lstrip":1}])"),
       "added_tokens[0]: field 'lstrip'"}};
  for (const auto& [json, message] : cases) {
    const Status status = ParseTokenizerJson(json).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << json;
    EXPECT_TRUE(status.message().starts_with(message)) << json << "\n" << status.message();
  }
}

TEST(TokenizerJsonTest, ReadsMergesOfBothForms) {
  for (const char* merges : {R"(["a b"])", R"([["a","b"]])"}) {
    const auto tokenizer = ParseTokenizerJson(
        std::string(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":)") + merges +
        "}}");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    Encoding encoding;
    ASSERT_TRUE((*tokenizer)->Encode("abb", {}, &encoding).ok());
    EXPECT_EQ(encoding.ids, (std::vector<TokenId>{2, 1}));
  }
}

TEST(TokenizerJsonTest, MissingFileIsNotFound) {
  const Status status = LoadTokenizerJson("/nowhere/tokenizer.json").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/nowhere/tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace pergola::tokenizers
