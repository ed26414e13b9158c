// Everything that tests/golden says the reference library gives: see its manifests.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

const fs::path kGolden = fs::path(PERGOLA_TEST_DATA) / "golden";

template <typename T>
std::vector<T> Numbers(const element& array) {
  std::vector<T> values;
  for (const element value : array.get_array()) values.push_back(static_cast<T>(int64_t{value}));
  return values;
}

std::vector<ByteSpan> Spans(const element& array) {
  std::vector<ByteSpan> spans;
  for (const element pair : array.get_array()) {
    spans.push_back({uint64_t{pair.at(0)}, uint64_t{pair.at(1)}});
  }
  return spans;
}

std::unique_ptr<Tokenizer> Load(const fs::path& path) {
  auto tokenizer = LoadTokenizerJson(path.string());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

void CheckText(const Tokenizer& tokenizer, const element& golden) {
  const std::string_view text = golden["text"];
  Encoding encoding;
  ASSERT_TRUE(tokenizer.Encode(text, {.with_offsets = true}, &encoding).ok());
  EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["ids"]));
  EXPECT_EQ(encoding.type_ids, Numbers<int32_t>(golden["type_ids"]));
  EXPECT_EQ(encoding.offsets, Spans(golden["offsets"]));
  EXPECT_EQ(encoding.special_mask, Numbers<uint8_t>(golden["special"]));
  EXPECT_EQ(encoding.total_tokens, encoding.ids.size());
  EXPECT_FALSE(encoding.truncated);
  for (const bool skip : {false, true}) {
    const auto decoded = tokenizer.Decode(encoding.ids, skip);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, std::string_view(golden[skip ? "decoded_bare" : "decoded"]));
  }
  ASSERT_TRUE(tokenizer.Encode(text, {.add_special_tokens = false}, &encoding).ok());
  EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["bare"]));
}

void CheckPair(const Tokenizer& tokenizer, const element& golden) {
  EncodeOptions options;
  options.with_offsets = true;
  options.max_tokens = uint64_t{golden["limit"]};
  options.side =
      std::string_view(golden["side"]) == "left" ? TruncationSide::kLeft : TruncationSide::kRight;
  const std::string_view text = golden["text"];
  Encoding encoding;
  ASSERT_TRUE(tokenizer.Encode(text, options, &encoding).ok());
  EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["cut"]));
  EXPECT_EQ(encoding.truncated, encoding.total_tokens > options.max_tokens);
  ASSERT_TRUE(tokenizer.EncodePair(text, golden["second"], options, &encoding).ok());
  EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["ids"]));
  EXPECT_EQ(encoding.type_ids, Numbers<int32_t>(golden["type_ids"]));
  EXPECT_EQ(encoding.offsets, Spans(golden["offsets"]));
  EXPECT_EQ(encoding.special_mask, Numbers<uint8_t>(golden["special"]));
}

TEST(TokenizerGoldenTest, EveryPartGivesWhatTheReferenceGives) {
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(kGolden / "tokenizers")) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kSuffix = ".cases.jsonl";
    if (!name.ends_with(kSuffix)) continue;
    const std::string stem = name.substr(0, name.size() - kSuffix.size());
    const fs::path path = stem.starts_with("tiny-")
                              ? kGolden / "tiny" / stem.substr(5) / "tokenizer.json"
                              : kGolden / "tokenizers" / (stem + ".json");
    const auto tokenizer = Load(path);
    ASSERT_NE(tokenizer, nullptr);
    simdjson::dom::parser parser;
    std::ifstream lines(entry.path());
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      SCOPED_TRACE(name + ":" + std::to_string(++number) + " " + line.substr(0, 150));
      const element golden = parser.parse(line);
      if (golden["second"].error() == simdjson::SUCCESS) {
        CheckPair(*tokenizer, golden);
      } else {
        CheckText(*tokenizer, golden);
      }
    }
    EXPECT_GE(number, 70) << name;
    ++num_files;
  }
  EXPECT_GE(num_files, 58);
}

TEST(TokenizerGoldenTest, TinyModelsGiveTheIdsOfTheirGoldens) {
  for (const char* model : {"bert", "bert-cls", "mpnet", "distilbert", "gemma3-embed",
                            "qwen3-embed", "roberta", "modernbert", "nomic-bert", "xlm-roberta"}) {
    const fs::path folder = kGolden / "tiny" / model;
    const auto tokenizer = Load(folder / "tokenizer.json");
    ASSERT_NE(tokenizer, nullptr);
    simdjson::dom::parser parser;
    const element golden = parser.load((folder / "golden.json").string());
    const simdjson::dom::array texts = golden["texts"];
    ASSERT_GT(texts.size(), 0u);
    for (size_t i = 0; i < texts.size(); ++i) {
      SCOPED_TRACE(std::string(model) + " text " + std::to_string(i));
      Encoding encoding;
      const EncodeOptions options{.max_tokens = uint64_t{golden["max_seq_length"]}};
      ASSERT_TRUE(tokenizer->Encode(texts.at(i), options, &encoding).ok());
      EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["ids"].at(i)));
    }
  }
}

TEST(TokenizerGoldenTest, TinyClassifierGivesTheIdsOfItsPairs) {
  const fs::path folder = kGolden / "tiny" / "bert-classifier";
  const auto tokenizer = Load(folder / "tokenizer.json");
  ASSERT_NE(tokenizer, nullptr);
  simdjson::dom::parser parser;
  const element golden = parser.load((folder / "golden.json").string());
  const simdjson::dom::array pairs = golden["pairs"];
  ASSERT_GT(pairs.size(), 0u);
  for (size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE("pair " + std::to_string(i));
    Encoding encoding;
    const EncodeOptions options{.max_tokens = uint64_t{golden["max_seq_length"]}};
    ASSERT_TRUE(
        tokenizer->EncodePair(pairs.at(i)["query"], pairs.at(i)["passage"], options, &encoding)
            .ok());
    EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["ids"].at(i)));
  }
}

// PERGOLA_REAL_MODELS is a folder with the models themselves; their tokenizers are too large to
// keep here.
class RealTokenizerTest : public testing::TestWithParam<const char*> {};

TEST_P(RealTokenizerTest, GivesTheIdsOfTheGoldens) {
  const char* models = std::getenv("PERGOLA_REAL_MODELS");
  if (models == nullptr || *models == '\0') GTEST_SKIP() << "PERGOLA_REAL_MODELS is not set";
  if (!fs::exists(fs::path(models) / GetParam())) GTEST_SKIP() << "no " << GetParam() << " there";
  const auto tokenizer = Load(fs::path(models) / GetParam() / "tokenizer.json");
  ASSERT_NE(tokenizer, nullptr);
  simdjson::dom::parser text_parser;
  const simdjson::dom::array texts = text_parser.load((kGolden / "texts.json").string());
  std::ifstream lines(kGolden / GetParam() / "tokens.jsonl");
  simdjson::dom::parser parser;
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const element golden = parser.parse(line);
    SCOPED_TRACE("text " + std::to_string(count));
    Encoding encoding;
    const std::string_view text = texts.at(count)["text"];
    ASSERT_TRUE(tokenizer->Encode(text, {}, &encoding).ok());
    EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["ids"]));
    if (golden["ids_nospecial"].error() != simdjson::SUCCESS) continue;
    ASSERT_TRUE(tokenizer->Encode(text, {.add_special_tokens = false}, &encoding).ok());
    EXPECT_EQ(encoding.ids, Numbers<TokenId>(golden["ids_nospecial"]));
  }
  EXPECT_EQ(count, texts.size());
}

INSTANTIATE_TEST_SUITE_P(Models, RealTokenizerTest,
                         testing::Values("all-MiniLM-L6-v2", "embeddinggemma-300m", "qwen",
                                         "xlm-roberta"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase_if(name, [](char c) { return c == '-'; });
                           return name;
                         });

}  // namespace
}  // namespace pergola::tokenizers
