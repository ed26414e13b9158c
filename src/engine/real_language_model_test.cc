// Second tier: gemma-3-270m in Q4_K_M against the reference library's next-token tables and greedy
// continuations (tests/golden/gemma-3-270m, made by PyTorch from the widened weights).
// Needs PERGOLA_REAL_MODELS, a folder with gemma-3-270m-q4_k_m.gguf.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/generator.h"

namespace pergola::engine {
namespace {

constexpr int64_t kTop = 20;
constexpr int64_t kTokens = 32;
// Quantised activations may choose otherwise where the two best logits are nearer than this.
constexpr double kUndecidedGap = 0.3;

struct GoldenPrompt {
  std::string text;
  std::vector<int32_t> ids, top_ids, greedy_ids;
  std::vector<double> top_logits, gaps;
  double log_sum_exp = 0;
};

template <typename T>
std::vector<T> List(const simdjson::dom::element& row, const char* key) {
  std::vector<T> values;
  for (const double value : row[key].get_array()) values.push_back(static_cast<T>(value));
  return values;
}

std::vector<GoldenPrompt> ReadPrompts() {
  simdjson::dom::parser parser;
  simdjson::dom::document_stream rows;
  EXPECT_FALSE(
      parser.load_many(std::string(PERGOLA_TEST_DATA) + "/golden/gemma-3-270m/prompts.jsonl")
          .get(rows));
  std::vector<GoldenPrompt> prompts;
  for (const simdjson::dom::element row : rows) {
    prompts.push_back({std::string(std::string_view(row["prompt"])), List<int32_t>(row, "ids"),
                       List<int32_t>(row, "top20_ids"), List<int32_t>(row, "greedy32_ids"),
                       List<double>(row, "top20_logits"),
                       List<double>(row, "greedy32_top1_top2_gap"), double(row["logsumexp"])});
  }
  return prompts;
}

class RealLanguageModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERGOLA_REAL_MODELS");
    if (folder == nullptr) GTEST_SKIP() << "PERGOLA_REAL_MODELS is not set";
    path_ = std::string(folder) + "/gemma-3-270m-q4_k_m.gguf";
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " is not there";
    prompts_ = ReadPrompts();
    ASSERT_EQ(prompts_.size(), 16u);
  }
  std::unique_ptr<LanguageModel> Load(kernels::ActivationPrecision activations) {
    LanguageModelOptions options;
    options.activations = activations;
    auto model = LanguageModel::Load(path_, options);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return model.ok() ? std::move(*model) : nullptr;
  }

  std::string path_;
  std::vector<GoldenPrompt> prompts_;
};

TEST_F(RealLanguageModelTest, TheReferenceModeGivesItsTablesAndContinuations) {
  const auto model = Load(kernels::ActivationPrecision::kF32);
  ASSERT_NE(model, nullptr);
  Generator generator(*model, {});
  tokenizers::Encoding encoding;
  for (const GoldenPrompt& prompt : prompts_) {
    SCOPED_TRACE(prompt.text);
    ASSERT_TRUE(model->tokenizer().Encode(prompt.text, {}, &encoding).ok());
    EXPECT_EQ(encoding.ids, prompt.ids);
    const auto generation = generator.Generate(
        prompt.ids, {.max_tokens = kTokens, .top_k = kTop, .stop_at_end = false, .sampling = {}});
    ASSERT_TRUE(generation.ok()) << generation.status().ToString();
    EXPECT_NEAR(generation->next.log_sum_exp, prompt.log_sum_exp, 1e-3);
    for (size_t rank = 0; rank < static_cast<size_t>(kTop); ++rank) {
      EXPECT_EQ(generation->next.tokens[rank].id, prompt.top_ids[rank]) << rank;
      EXPECT_NEAR(generation->next.tokens[rank].logit, prompt.top_logits[rank], 1e-3) << rank;
    }
    EXPECT_EQ(generation->ids, prompt.greedy_ids);
  }
}

TEST_F(RealLanguageModelTest, TheQuantisedModeFollowsUntilTheChoiceIsClose) {
  const auto model = Load(kernels::ActivationPrecision::kAuto);
  ASSERT_NE(model, nullptr);
  Generator generator(*model, {});
  for (const GoldenPrompt& prompt : prompts_) {
    SCOPED_TRACE(prompt.text);
    const auto generation = generator.Generate(
        prompt.ids, {.max_tokens = kTokens, .stop_at_end = false, .sampling = {}});
    ASSERT_TRUE(generation.ok()) << generation.status().ToString();
    for (size_t step = 0; step < prompt.gaps.size() && prompt.gaps[step] >= kUndecidedGap; ++step) {
      EXPECT_EQ(generation->ids[step], prompt.greedy_ids[step]) << step;
    }
  }
}

}  // namespace
}  // namespace pergola::engine
