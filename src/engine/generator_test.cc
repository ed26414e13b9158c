// Causal models against the reference library: next-token tables and greedy continuations
// (tests/golden/tiny), and what a cache may never change.
#include "engine/generator.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/testing/golden_values.h"
#include "models/ffn_stack.h"

namespace pergola::engine {
namespace {

struct CausalGolden {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<int32_t>> greedy;
  std::vector<std::string> texts;
  std::vector<float> logits;
};

std::vector<std::vector<int32_t>> IdLists(const simdjson::dom::element& root, const char* key) {
  std::vector<std::vector<int32_t>> lists;
  for (const simdjson::dom::element row : root[key].get_array()) {
    std::vector<int32_t>& list = lists.emplace_back();
    for (const int64_t id : row.get_array()) list.push_back(static_cast<int32_t>(id));
  }
  return lists;
}

class GeneratorPerIsaTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    directory_ = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + GetParam();
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(directory_ + "/golden.json");
    golden_.ids = IdLists(root, "ids");
    golden_.greedy = IdLists(root, "greedy16_ids");
    for (const simdjson::dom::element text : root["texts"].get_array()) {
      golden_.texts.emplace_back(std::string_view(text));
    }
    golden_.logits = ReadFloats(directory_ + "/golden.f32");
    LanguageModelOptions options;
    options.ops.num_threads = 2;
    auto model = LanguageModel::Load(directory_, options);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
  }
  int64_t vocab_size() const { return model_->config().vocab_size; }

  std::string directory_;
  CausalGolden golden_;
  std::unique_ptr<LanguageModel> model_;
};

TEST_P(GeneratorPerIsaTest, NextTokenLogitsAgreeWithTheReference) {
  Generator generator(*model_, {});
  for (size_t index = 0; index < golden_.ids.size(); ++index) {
    generator.Truncate(0);
    ASSERT_TRUE(generator.Feed(golden_.ids[index]).ok());
    const auto logits = generator.Logits();
    ASSERT_TRUE(logits.ok());
    const float* expected = golden_.logits.data() + static_cast<int64_t>(index) * vocab_size();
    for (int64_t id = 0; id < vocab_size(); ++id) {
      ASSERT_NEAR((*logits)[static_cast<size_t>(id)], expected[id], 2e-4)
          << "text " << index << " id " << id;
    }
  }
}

TEST_P(GeneratorPerIsaTest, GreedyContinuationsAreTheReferences) {
  Generator generator(*model_, {});
  for (size_t index = 0; index < golden_.ids.size(); ++index) {
    const auto generation = generator.Generate(
        golden_.ids[index], {.max_tokens = 16, .stop_at_end = false, .sampling = {}});
    ASSERT_TRUE(generation.ok()) << generation.status().ToString();
    EXPECT_EQ(generation->ids, golden_.greedy[index]) << "text " << index;
  }
}

TEST_P(GeneratorPerIsaTest, TokenIdsAreTheReferences) {
  tokenizers::Encoding encoding;
  for (size_t index = 0; index < golden_.texts.size(); ++index) {
    ASSERT_TRUE(model_->tokenizer().Encode(golden_.texts[index], {}, &encoding).ok());
    EXPECT_EQ(encoding.ids, golden_.ids[index]) << "text " << index;
  }
}

// Row by row, in pieces, or all at once: the same bits.
TEST_P(GeneratorPerIsaTest, TheCacheChangesNoBit) {
  const std::vector<int32_t>& ids = golden_.ids[5];
  Generator whole(*model_, {}), pieces(*model_, {});
  ASSERT_TRUE(whole.Feed(ids).ok());
  const auto expected = whole.Logits();
  ASSERT_TRUE(expected.ok());
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{10}}) {
    pieces.Truncate(0);
    for (size_t begin = 0; begin < ids.size(); begin += piece) {
      const size_t count = std::min(piece, ids.size() - begin);
      ASSERT_TRUE(pieces.Feed(std::span(ids).subspan(begin, count)).ok());
    }
    EXPECT_EQ(pieces.length(), static_cast<int64_t>(ids.size()));
    const auto actual = pieces.Logits();
    ASSERT_TRUE(actual.ok());
    EXPECT_TRUE(std::equal(expected->begin(), expected->end(), actual->begin())) << piece;
  }
}

// Sequences of different lengths in one pass, with a cache each.
TEST_P(GeneratorPerIsaTest, ARaggedPrefillIsEachSequenceAlone) {
  const models::ModelConfig& config = model_->config();
  const int64_t width = config.hidden_size;
  const int64_t key_width = config.num_kv_heads * config.head_width;
  std::vector<int32_t> ids, positions, cu_seqlens = {0};
  std::vector<models::KvCache> caches(3, models::KvCache(config.num_layers, key_width));
  std::vector<models::KvCache*> pointers;
  for (size_t seq = 0; seq < 3; ++seq) {
    for (size_t i = 0; i < golden_.ids[seq].size(); ++i) {
      ids.push_back(golden_.ids[seq][i]);
      positions.push_back(static_cast<int32_t>(i));
    }
    cu_seqlens.push_back(static_cast<int32_t>(ids.size()));
    pointers.push_back(&caches[seq]);
  }
  models::Batch batch{.ids = ids, .positions = positions, .type_ids = {}, .cu_seqlens = cu_seqlens};
  batch.caches = pointers;
  batch.final_norm = false;
  models::Workspace workspace;
  std::vector<float> hidden(ids.size() * static_cast<size_t>(width));
  ASSERT_TRUE(model_->encoder()
                  .Forward(batch, workspace,
                           F32Matrix(hidden.data(), static_cast<int64_t>(ids.size()), width))
                  .ok());
  for (size_t seq = 0; seq < 3; ++seq) {
    EXPECT_EQ(caches[seq].length(), cu_seqlens[seq + 1] - cu_seqlens[seq]);
    Generator alone(*model_, {});
    ASSERT_TRUE(alone.Feed(golden_.ids[seq]).ok());
    const auto expected = alone.Logits();
    std::vector<float> logits(static_cast<size_t>(vocab_size()));
    const float* last = hidden.data() + (cu_seqlens[seq + 1] - 1) * width;
    model_->head()->Apply(model_->ops(), workspace, ConstF32Matrix(last, 1, width),
                          F32Matrix(logits.data(), 1, vocab_size()));
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected->begin())) << seq;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GeneratorPerIsaTest,
                         ::testing::Values("gemma3-causal", "qwen3-causal", "llama",
                                           "llama-spm-rope3"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& letter : name) letter = letter == '-' ? '_' : letter;
                           return name;
                         });

std::unique_ptr<LanguageModel> LoadTiny(const char* name, const LanguageModelOptions& options) {
  auto model =
      LanguageModel::Load(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name, options);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return model.ok() ? std::move(*model) : nullptr;
}

// Computes the blocks elsewhere: with a second model, and fails when told to.
class OtherFfn : public models::FfnPort {
 public:
  explicit OtherFfn(const LanguageModel& model)
      : ops_(model.ops()),
        stack_(*models::FfnStack::Load(model.config(), model.source(), ops_, {},
                                       {0, model.config().num_layers - 1})) {}
  Status Start(int64_t layer, ConstF32Matrix x, F32Matrix y) override {
    if (layer == failing_layer) return UnavailableError("gone");
    stack_.Apply(layer, x, workspace_, y);
    return OkStatus();
  }
  Status Finish(int64_t) override { return OkStatus(); }

  int64_t failing_layer = -1;

 private:
  kernels::Ops& ops_;
  models::FfnStack stack_;
  models::Workspace workspace_;
};

TEST(GeneratorTest, AFailedBlockLeavesTheSequenceAndCanBeRepeated) {
  const auto model = LoadTiny("gemma3-causal", {});
  ASSERT_NE(model, nullptr);
  const std::vector<int32_t> prompt = {2, 824, 353, 827}, more = {889};
  Generator local(*model, {});
  ASSERT_TRUE(local.Feed(prompt).ok() && local.Feed(more).ok());
  const auto expected = local.Top(3);

  OtherFfn ffn(*model);
  Generator remote(*model, {.ffn = &ffn});
  ASSERT_TRUE(remote.Feed(prompt).ok());
  ffn.failing_layer = 4;
  EXPECT_EQ(remote.Feed(more).code(), StatusCode::kUnavailable);
  EXPECT_EQ(remote.length(), 4);
  ffn.failing_layer = -1;
  ASSERT_TRUE(remote.Feed(more).ok());
  const auto actual = remote.Top(3);
  EXPECT_EQ(actual->tokens, expected->tokens);
}

TEST(GeneratorTest, APartThatWasNotLoadedIsAnErrorThatNamesIt) {
  const auto model =
      LoadTiny("llama", {.ops = {}, .embeddings = false, .feed_forward = false, .head = false});
  ASSERT_NE(model, nullptr);
  Generator generator(*model, {});
  const std::vector<int32_t> prompt = {900, 64};
  const Status status = generator.Feed(prompt);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("embeddings"), std::string::npos) << status.message();
}

TEST(GeneratorTest, RefusesWhatItCannotContinue) {
  const auto model = LoadTiny("llama", {.ops = {}, .max_positions = 8});
  ASSERT_NE(model, nullptr);
  Generator generator(*model, {});
  EXPECT_EQ(generator.Generate({}, {}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<int32_t> outside = {900, 903};
  EXPECT_EQ(generator.Generate(outside, {}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<int32_t> prompt = {900, 64};
  EXPECT_TRUE(generator.Generate(prompt, {.max_tokens = 6, .sampling = {}}).ok());
  EXPECT_EQ(generator.Generate(prompt, {.max_tokens = 7, .sampling = {}}).status().code(),
            StatusCode::kInvalidArgument);
}

// The model with another end: the third token of a known continuation.
TEST(GeneratorTest, StopsAtATokenThatEndsTheText) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "pergola_generator_end";
  fs::remove_all(folder);
  fs::copy(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/llama", folder);
  std::string config;
  {
    std::ifstream file(folder / "config.json");
    config.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::string key = "\"eos_token_id\": 901";
  ASSERT_NE(config.find(key), std::string::npos);
  config.replace(config.find(key), key.size(), "\"eos_token_id\": [5, 880]");
  fs::permissions(folder / "config.json", fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(folder / "config.json") << config;
  const auto model = LanguageModel::Load(folder.string(), {});
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  Generator generator(**model, {});
  const std::vector<int32_t> prompt = {900, 64};
  const auto stopped = generator.Generate(prompt, {.max_tokens = 6, .sampling = {}});
  const auto whole =
      generator.Generate(prompt, {.max_tokens = 4, .stop_at_end = false, .sampling = {}});
  ASSERT_TRUE(stopped.ok() && whole.ok());
  EXPECT_EQ(stopped->ids, (std::vector<int32_t>{381, 606, 880}));
  EXPECT_EQ(whole->ids, (std::vector<int32_t>{381, 606, 880, 406}));
  fs::remove_all(folder);
}

TEST(GeneratorTest, SamplingRepeatsWithTheSeed) {
  const auto model = LoadTiny("qwen3-causal", {});
  ASSERT_NE(model, nullptr);
  Generator generator(*model, {});
  const std::vector<int32_t> prompt = {504, 86, 508};
  GenerateOptions options{.max_tokens = 12, .stop_at_end = false, .sampling = {}};
  options.sampling = {.temperature = 1.5f, .top_k = 50, .top_p = 0.95f, .seed = 1};
  const auto first = generator.Generate(prompt, options);
  const auto again = generator.Generate(prompt, options);
  options.sampling.seed = 2;
  const auto other = generator.Generate(prompt, options);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->ids, again->ids);
  EXPECT_NE(first->ids, other->ids);
}

TEST(GeneratorTest, AnEmbedderIsNoLanguageModel) {
  for (const char* name : {"bert", "gemma3-embed", "qwen3-bidir"}) {
    const auto model =
        LanguageModel::Load(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name, {});
    EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace pergola::engine
