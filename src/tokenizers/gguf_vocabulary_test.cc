#include "tokenizers/gguf_vocabulary.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pergola::tokenizers {
namespace {

using formats::MetadataValue;

// Metadata without a file.
class FakeSource final : public formats::TensorSource {
 public:
  std::string_view format() const override { return "gguf"; }
  std::span<const std::string> files() const override { return {}; }
  std::span<const formats::TensorInfo> tensors() const override { return {}; }
  const std::map<std::string, MetadataValue, std::less<>>& metadata() const override {
    return metadata_;
  }
  const formats::TensorInfo* Find(std::string_view /*name*/) const override { return nullptr; }

  template <typename T>
  void Set(const std::string& key, T value) {
    metadata_[key] = MetadataValue{std::move(value)};
  }
  void SetText(const std::string& key, const std::string& value) {
    Set(key, std::string_view(texts_.emplace_back(value)));
  }
  void SetStrings(const std::string& key, const std::vector<std::string>& values) {
    std::vector<std::string_view> views;
    for (const std::string& value : values) views.push_back(texts_.emplace_back(value));
    Set(key, std::move(views));
  }
  void SetTokens(const std::vector<std::string>& tokens) {
    SetStrings("tokenizer.ggml.tokens", tokens);
  }

 private:
  std::map<std::string, MetadataValue, std::less<>> metadata_;
  std::deque<std::string> texts_;
};

std::string GoldenPath(const std::string& name) {
  return std::string(PERGOLA_TEST_DATA) + "/golden/" + name;
}

std::unique_ptr<Tokenizer> Load(const std::string& path) {
  auto tokenizer = LoadTokenizerJson(path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

std::vector<std::string> TokensOf(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    tokens.emplace_back(tokenizer.IdToToken(static_cast<TokenId>(id)));
  }
  return tokens;
}

// The vocabulary of a BERT model as llama.cpp's converter writes it.
FakeSource BertSource(const Tokenizer& truth) {
  std::vector<std::string> tokens = TokensOf(truth);
  std::vector<int64_t> types;
  for (std::string& token : tokens) {
    types.push_back(token.starts_with('[') && token.size() > 2 ? 3 : 1);
    if (types.back() == 3) continue;
    token = token.starts_with("##") ? token.substr(2) : "\u2581" + token;
  }
  FakeSource source;
  source.SetText("tokenizer.ggml.model", "bert");
  source.SetTokens(tokens);
  source.Set("tokenizer.ggml.token_type", std::move(types));
  source.Set("tokenizer.ggml.cls_token_id", int64_t{truth.TokenToId("[CLS]")});
  source.Set("tokenizer.ggml.seperator_token_id", int64_t{truth.TokenToId("[SEP]")});
  source.Set("tokenizer.ggml.unknown_token_id", int64_t{truth.TokenToId("[UNK]")});
  return source;
}

// The vocabulary of a SentencePiece BPE model as the converter writes it: user-defined pieces have
// real spaces and scores of their own.
FakeSource LlamaSource(const Tokenizer& truth, TokenId num_special,
                       const std::vector<uint8_t>& user_defined) {
  std::vector<std::string> tokens = TokensOf(truth);
  std::vector<int64_t> types(tokens.size(), 1);
  std::vector<float> scores;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool special = static_cast<TokenId>(id) < num_special;
    scores.push_back(special || user_defined[id] != 0 ? -1000.0F : -static_cast<float>(id));
    if (special) types[id] = 3;
    if (user_defined[id] == 0) continue;
    types[id] = 4;
    for (size_t at; (at = tokens[id].find("\u2581")) != std::string::npos;) {
      tokens[id].replace(at, 3, " ");
    }
  }
  FakeSource source;
  source.SetText("general.architecture", "gemma-embedding");
  source.SetText("tokenizer.ggml.model", "llama");
  source.SetTokens(tokens);
  source.Set("tokenizer.ggml.token_type", std::move(types));
  source.Set("tokenizer.ggml.scores", std::move(scores));
  return source;
}

// Both tokenizers give the same for the texts of tests/golden/tokenizers.
void ExpectEqual(const Tokenizer& ours, const Tokenizer& truth) {
  simdjson::dom::parser parser;
  std::ifstream lines(GoldenPath("tokenizers/scored.cases.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string_view text = parser.parse(line)["text"];
    Encoding got;
    Encoding want;
    ASSERT_TRUE(ours.Encode(text, {.with_offsets = true}, &got).ok());
    ASSERT_TRUE(truth.Encode(text, {.with_offsets = true}, &want).ok());
    EXPECT_EQ(got.ids, want.ids) << text;
    EXPECT_EQ(got.offsets, want.offsets) << text;
    ASSERT_TRUE(ours.EncodePair(text, "b", {}, &got).ok());
    ASSERT_TRUE(truth.EncodePair(text, "b", {}, &want).ok());
    EXPECT_EQ(got.ids, want.ids) << text;
    EXPECT_EQ(got.type_ids, want.type_ids) << text;
    EXPECT_EQ(*ours.Decode(got.ids, true), *truth.Decode(want.ids, true));
  }
  EXPECT_GE(count, 70);
}

// The same ids and segments, singly and in pairs, for the golden texts.
void ExpectEqualIds(const Tokenizer& ours, const Tokenizer& truth) {
  simdjson::dom::parser parser;
  const simdjson::dom::array texts = parser.load(GoldenPath("texts.json"));
  for (const simdjson::dom::element entry : texts) {
    const std::string_view text = entry["text"];
    Encoding got;
    Encoding want;
    ASSERT_TRUE(ours.Encode(text, {}, &got).ok());
    ASSERT_TRUE(truth.Encode(text, {}, &want).ok());
    ASSERT_EQ(got.ids, want.ids) << text;
    EXPECT_EQ(*ours.Decode(got.ids, false), *truth.Decode(want.ids, false));
    ASSERT_TRUE(ours.EncodePair(text, "b <mask> \u2122", {}, &got).ok());
    ASSERT_TRUE(truth.EncodePair(text, "b <mask> \u2122", {}, &want).ok());
    ASSERT_EQ(got.ids, want.ids) << text;
  }
}

std::vector<int64_t> Base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<int64_t> bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(digit));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(bits >> num_bits & 0xFF);
  }
  return bytes;
}

TEST(GgufVocabularyTest, BertGivesTheIdsOfTokenizerJson) {
  for (const char* path : {"tokenizers/bert_uncased.json", "tiny/bert/tokenizer.json"}) {
    SCOPED_TRACE(path);
    const auto truth = Load(GoldenPath(path));
    ASSERT_NE(truth, nullptr);
    auto source = BertSource(*truth);
    if (std::string(path).starts_with("tokenizers/")) {
      // This vocabulary has capitals though the model is uncased: they make it a cased one.
      const auto cased = Load(GoldenPath("tokenizers/bert_cased.json"));
      const auto ours = LoadTokenizerGguf(source);
      ASSERT_TRUE(ours.ok()) << ours.status().ToString();
      ExpectEqual(**ours, *cased);
      continue;
    }
    const auto ours = LoadTokenizerGguf(source);
    ASSERT_TRUE(ours.ok()) << ours.status().ToString();
    EXPECT_EQ((*ours)->kind(), "wordpiece");
    ExpectEqual(**ours, *truth);
    EXPECT_TRUE((*ours)->IsSpecial((*ours)->TokenToId("[MASK]")));
  }
}

TEST(GgufVocabularyTest, FileSaysWhetherTextIsLowerCased) {
  // The same vocabulary, with capitals, behind both.
  const auto cased = Load(GoldenPath("tokenizers/bert_cased.json"));
  const auto uncased = Load(GoldenPath("tokenizers/bert_uncased.json"));
  ASSERT_TRUE(cased != nullptr && uncased != nullptr);
  for (const bool lowercase : {false, true}) {
    SCOPED_TRACE(lowercase);
    const Tokenizer& truth = lowercase ? *uncased : *cased;
    FakeSource source = BertSource(truth);
    source.Set("tokenizer.ggml.normalizer.lowercase", lowercase);
    const auto ours = LoadTokenizerGguf(source);
    ASSERT_TRUE(ours.ok()) << ours.status().ToString();
    ExpectEqual(**ours, truth);
  }
}

TEST(GgufVocabularyTest, FileMayKeepAccentsOfLowerCasedText) {
  FakeSource source;
  source.SetText("tokenizer.ggml.model", "bert");
  source.SetTokens({"[UNK]", "[CLS]", "[SEP]", "\u2581\u00e9t\u00e9", "\u2581ete"});
  source.Set("tokenizer.ggml.unknown_token_id", int64_t{0});
  source.Set("tokenizer.ggml.cls_token_id", int64_t{1});
  source.Set("tokenizer.ggml.seperator_token_id", int64_t{2});
  for (const bool strip_accents : {false, true}) {
    source.Set("tokenizer.ggml.normalizer.strip_accents", strip_accents);
    const auto tokenizer = LoadTokenizerGguf(source);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    Encoding encoding;
    ASSERT_TRUE((*tokenizer)->Encode("\u00c9T\u00c9", {}, &encoding).ok());
    EXPECT_EQ(encoding.ids, (std::vector<TokenId>{1, strip_accents ? 4 : 3, 2}));
  }
}

TEST(GgufVocabularyTest, ScoresGiveTheIdsOfTheMergesMadeFromThem) {
  const auto truth = Load(GoldenPath("tokenizers/scored.json"));
  ASSERT_NE(truth, nullptr);
  std::vector<uint8_t> user_defined(truth->vocab_size());
  user_defined[3] = user_defined[4] = 1;
  FakeSource source = LlamaSource(*truth, 3, user_defined);
  source.Set("tokenizer.ggml.bos_token_id", int64_t{1});
  source.Set("tokenizer.ggml.eos_token_id", int64_t{2});
  source.Set("tokenizer.ggml.unknown_token_id", int64_t{0});
  const auto ours = LoadTokenizerGguf(source);
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_EQ((*ours)->kind(), "bpe");
  ExpectEqual(**ours, *truth);
}

TEST(GgufVocabularyTest, FileSaysWhichSpecialTokensAreAdded) {
  const auto truth = Load(GoldenPath("tokenizers/scored.json"));
  ASSERT_NE(truth, nullptr);
  FakeSource source = LlamaSource(*truth, 3, std::vector<uint8_t>(truth->vocab_size()));
  source.Set("tokenizer.ggml.add_bos_token", false);
  source.Set("tokenizer.ggml.add_eos_token", false);
  source.Set("tokenizer.ggml.add_space_prefix", true);
  const auto ours = LoadTokenizerGguf(source);
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  Encoding encoding;
  ASSERT_TRUE((*ours)->Encode("hello", {}, &encoding).ok());
  EXPECT_EQ(encoding.ids, std::vector<TokenId>{truth->TokenToId("\u2581hello")});
  EXPECT_EQ(*(*ours)->Decode(encoding.ids, false), "hello");
}

TEST(GgufVocabularyTest, NamesTheKeyThatIsMissingOrWrong) {
  FakeSource empty;
  EXPECT_EQ(LoadTokenizerGguf(empty).status().code(), StatusCode::kNotFound);
  FakeSource other;
  other.SetText("tokenizer.ggml.model", "rwkv");
  other.SetTokens({"a"});
  EXPECT_EQ(LoadTokenizerGguf(other).status().code(), StatusCode::kUnimplemented);

  FakeSource source;
  source.SetText("tokenizer.ggml.model", "llama");
  const auto message = [&] { return LoadTokenizerGguf(source).status().message(); };
  EXPECT_NE(message().find("tokenizer.ggml.tokens is missing"), std::string::npos);
  source.SetTokens({"a", "b"});
  EXPECT_NE(message().find("tokenizer.ggml.scores is missing"), std::string::npos);
  source.Set("tokenizer.ggml.scores", std::vector<float>{1});
  EXPECT_NE(message().find("scores has 1 entries for 2 tokens"), std::string::npos);
  source.Set("tokenizer.ggml.scores", std::vector<float>{1, 2});
  source.Set("tokenizer.ggml.bos_token_id", int64_t{2});
  EXPECT_NE(message().find("bos_token_id is 2, outside"), std::string::npos);
  source.SetTokens({"a", "a"});
  EXPECT_NE(message().find("'a' is listed twice"), std::string::npos);
  source.SetTokens({"a", "\xff"});
  EXPECT_NE(message().find("tokens[1] is not valid UTF-8"), std::string::npos);
}

// A byte-level vocabulary as the converter writes it: tokens and merges of `path`.
FakeSource ByteLevelSource(const std::string& path, const Tokenizer& truth, const char* pre) {
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.load(path);
  std::vector<std::string> tokens = TokensOf(truth);
  std::vector<int64_t> types(tokens.size(), 1);
  for (const simdjson::dom::element token : json["added_tokens"].get_array()) {
    types[size_t{uint64_t{token["id"]}}] = bool{token["special"]} ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (const simdjson::dom::element merge : json["model"]["merges"].get_array()) {
    merges.push_back(std::string(std::string_view(merge.at(0))) + " " +
                     std::string(std::string_view(merge.at(1))));
  }
  FakeSource source;
  source.SetText("tokenizer.ggml.model", "gpt2");
  source.SetText("tokenizer.ggml.pre", pre);
  source.SetTokens(tokens);
  source.SetStrings("tokenizer.ggml.merges", merges);
  source.Set("tokenizer.ggml.token_type", std::move(types));
  return source;
}

TEST(GgufVocabularyTest, ByteLevelGivesTheIdsOfTokenizerJson) {
  struct Case {
    const char* path;
    const char* pre;
    const char* bos;
    const char* eos;
  };
  const Case cases[] = {{"tiny/qwen3-embed/tokenizer.json", "qwen2", nullptr, "<|endoftext|>"},
                        {"tiny/llama/tokenizer.json", "llama-bpe", "<|begin_of_text|>", nullptr},
                        {"tiny/roberta/tokenizer.json", "roberta-bpe", "<s>", "</s>"},
                        {"tiny/modernbert/tokenizer.json", "modern-bert", "[CLS]", "[SEP]"},
                        {"tokenizers/byte_level_gpt2.json", "gpt-2", nullptr, nullptr},
                        {"tokenizers/byte_level_default.json", "default", nullptr, nullptr}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.path);
    const auto truth = Load(GoldenPath(c.path));
    ASSERT_NE(truth, nullptr);
    FakeSource source = ByteLevelSource(GoldenPath(c.path), *truth, c.pre);
    if (std::string_view(c.pre).find("bert") != std::string_view::npos) {
      source.SetText("general.architecture", "bert");
    }
    if (c.bos != nullptr) {
      source.Set("tokenizer.ggml.bos_token_id", int64_t{truth->TokenToId(c.bos)});
      source.Set("tokenizer.ggml.add_bos_token", true);
    }
    if (c.eos != nullptr) {
      source.Set("tokenizer.ggml.eos_token_id", int64_t{truth->TokenToId(c.eos)});
      source.Set("tokenizer.ggml.add_eos_token", true);
    }
    const auto ours = LoadTokenizerGguf(source);
    ASSERT_TRUE(ours.ok()) << ours.status().ToString();
    EXPECT_EQ((*ours)->kind(), "bpe");
    ExpectEqualIds(**ours, *truth);
  }
}

TEST(GgufVocabularyTest, RefusesPreTokenisersThatItDoesNotKnow) {
  const std::string path = GoldenPath("tokenizers/byte_level_gpt2.json");
  const auto truth = Load(path);
  ASSERT_NE(truth, nullptr);
  const Status status = LoadTokenizerGguf(ByteLevelSource(path, *truth, "tekken")).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "tokenizer.ggml.pre 'tekken' is not supported");
}

TEST(GgufVocabularyTest, UnigramGivesTheIdsOfTokenizerJson) {
  const std::string path = GoldenPath("tiny/xlm-roberta/tokenizer.json");
  const auto truth = Load(path);
  ASSERT_NE(truth, nullptr);
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.load(path);
  std::vector<std::string> tokens = TokensOf(*truth);
  std::vector<float> scores;
  for (const simdjson::dom::element entry : json["model"]["vocab"].get_array()) {
    scores.push_back(static_cast<float>(double{entry.at(1)}));
  }
  scores.resize(tokens.size());
  std::vector<int64_t> types(tokens.size(), 1);
  for (const simdjson::dom::element token : json["added_tokens"].get_array()) {
    types[size_t{uint64_t{token["id"]}}] = 3;
  }
  types[3] = 2;
  tokens.emplace_back("[PAD99]");  // filled up
  scores.push_back(-10000);
  types.push_back(5);
  FakeSource source;
  source.SetText("tokenizer.ggml.model", "t5");
  source.SetText("general.architecture", "bert");
  source.SetTokens(tokens);
  source.Set("tokenizer.ggml.scores", std::move(scores));
  source.Set("tokenizer.ggml.token_type", std::move(types));
  source.Set("tokenizer.ggml.bos_token_id", int64_t{0});
  source.Set("tokenizer.ggml.eos_token_id", int64_t{2});
  source.Set("tokenizer.ggml.unknown_token_id", int64_t{3});
  source.Set("tokenizer.ggml.precompiled_charsmap",
             Base64(std::string_view(json["normalizer"]["precompiled_charsmap"])));
  const auto ours = LoadTokenizerGguf(source);
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_EQ((*ours)->kind(), "unigram");
  ExpectEqualIds(**ours, *truth);
}

// With the real Gemma vocabulary: what SentencePiece ranks is what the merges of tokenizer.json
// say.
TEST(GgufVocabularyTest, GemmaScoresGiveTheIdsOfItsTokenizerJson) {
  const char* models = std::getenv("PERGOLA_REAL_MODELS");
  if (models == nullptr || *models == '\0') GTEST_SKIP() << "PERGOLA_REAL_MODELS is not set";
  const std::string path = std::string(models) + "/embeddinggemma-300m/tokenizer.json";
  const auto truth = Load(path);
  ASSERT_NE(truth, nullptr);
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.load(path);
  std::vector<uint8_t> user_defined(truth->vocab_size());
  for (const simdjson::dom::element token : json["added_tokens"].get_array()) {
    const auto id = static_cast<size_t>(int64_t{token["id"]});
    user_defined[id] = id >= 4 ? 1 : 0;
  }
  FakeSource source = LlamaSource(*truth, 4, user_defined);
  source.Set("tokenizer.ggml.bos_token_id", int64_t{2});
  source.Set("tokenizer.ggml.eos_token_id", int64_t{1});
  source.Set("tokenizer.ggml.unknown_token_id", int64_t{3});
  const auto ours = LoadTokenizerGguf(source);
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  simdjson::dom::parser text_parser;
  const simdjson::dom::array texts = text_parser.load(GoldenPath("texts.json"));
  for (const simdjson::dom::element entry : texts) {
    const std::string_view text = entry["text"];
    Encoding got;
    Encoding want;
    ASSERT_TRUE((*ours)->Encode(text, {.with_offsets = true}, &got).ok());
    ASSERT_TRUE(truth->Encode(text, {.with_offsets = true}, &want).ok());
    EXPECT_EQ(got.ids, want.ids) << text;
    EXPECT_EQ(got.offsets, want.offsets) << text;
  }
}

}  // namespace
}  // namespace pergola::tokenizers
