// Whole models against the reference library: random-weight models of every architecture with the
// ids, hidden states and vectors that PyTorch gave (tests/golden/tiny, written by the reference
// library).

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/temp_folder.h"
#include "engine/local_runner.h"
#include "engine/model.h"
#include "engine/testing/golden_values.h"

namespace pergola::engine {
namespace {

using kernels::ActivationPrecision;

struct Hidden {
  size_t text;
  int64_t rows;
  int64_t row_offset;
};

struct Golden {
  std::vector<Sequence> sequences;
  std::vector<std::string> texts;  // empty for pairs
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<Hidden> hidden;
  std::vector<float> vectors;
  std::vector<float> hidden_values;
  int64_t width = 0;
  int64_t max_tokens = INT64_MAX;
  bool normalised = false;
};

// Texts or pairs, and where the second text of each pair begins.
void ReadTexts(const simdjson::dom::element& root, Golden* golden) {
  if (root["pairs"].error() != simdjson::SUCCESS) {
    for (const simdjson::dom::element text : root["texts"].get_array()) {
      golden->texts.emplace_back(std::string_view(text));
    }
    return;
  }
  for (const simdjson::dom::element pair : root["pairs"].get_array()) {
    golden->pairs.emplace_back(std::string_view(pair["query"]), std::string_view(pair["passage"]));
  }
  if (root["token_type_ids"].error() != simdjson::SUCCESS) return;
  size_t index = 0;
  for (const simdjson::dom::element row : root["token_type_ids"].get_array()) {
    int32_t zeros = 0;
    for (const int64_t type : row.get_array()) zeros += type == 0 ? 1 : 0;
    golden->sequences[index++].second_text = zeros;
  }
}

Golden ReadGolden(const std::string& directory) {
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.load(directory + "/golden.json");
  Golden golden;
  for (const simdjson::dom::element row : root["ids"].get_array()) {
    Sequence& sequence = golden.sequences.emplace_back();
    for (const int64_t id : row.get_array()) sequence.ids.push_back(static_cast<int32_t>(id));
  }
  ReadTexts(root, &golden);
  if (root["hidden"].error() == simdjson::SUCCESS) {
    for (const simdjson::dom::element row : root["hidden"]["rows"].get_array()) {
      golden.hidden.push_back({static_cast<size_t>(int64_t(row["text_index"])),
                               int64_t(row["shape"].get_array().at(0)),
                               int64_t(row["row_offset"])});
    }
  }
  golden.width = int64_t(root["shape"].get_array().at(1));
  if (root["max_seq_length"].is_int64()) golden.max_tokens = int64_t(root["max_seq_length"]);
  golden.normalised = root["normalize"].is_bool() && bool(root["normalize"]);
  golden.vectors = ReadFloats(directory + "/golden.f32");
  golden.hidden_values = ReadFloats(directory + "/hidden.f32");
  return golden;
}

class TinyModelPerIsaTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + GetParam();
    directory_ = path_.ends_with(".gguf") ? path_.substr(0, path_.rfind('/')) : path_;
    golden_ = ReadGolden(directory_);
    // Weights mean what the reference computed in f32; kAuto may round activations (bf16).
    model_ = Load(2, ActivationPrecision::kF32);
    ASSERT_NE(model_, nullptr);
  }
  std::unique_ptr<Model> Load(int threads, ActivationPrecision activations) {
    ModelOptions options;
    options.ops.num_threads = threads;
    options.activations = activations;
    auto model = Model::Load(path_, options);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return model.ok() ? std::move(*model) : nullptr;
  }
  // Rows of each sequence of `batch`, all of one output kind, run by a fresh runner.
  static std::vector<std::vector<float>> RunBatch(const Model& model,
                                                  const std::vector<SequenceInput>& batch) {
    LocalRunner runner(model);
    auto outputs = runner.Run(batch);
    EXPECT_TRUE(outputs.ok()) << outputs.status().ToString();
    std::vector<std::vector<float>> rows;
    for (size_t index = 0; index < batch.size(); ++index) {
      const auto kind =
          std::find_if(kOutputKinds.begin(), kOutputKinds.end(),
                       [&](OutputKind each) { return batch[index].outputs.Has(each); });
      const auto row = (*outputs)->Rows(static_cast<int64_t>(index), *kind);
      rows.emplace_back(row->data, row->data + row->rows * row->cols);
    }
    return rows;
  }

  // As many tokens as the reference was given; a GGUF file does not say that the pipeline took less
  // than the encoder can.
  tokenizers::EncodeOptions Limit() const {
    tokenizers::EncodeOptions options;
    options.max_tokens =
        static_cast<size_t>(std::min(model_->pipeline().max_tokens, golden_.max_tokens));
    return options;
  }

  std::string path_;       // of the model: a folder, or a GGUF file in it
  std::string directory_;  // the folder, with the golden values
  Golden golden_;
  std::unique_ptr<Model> model_;
};

TEST_P(TinyModelPerIsaTest, TokenIdsAreTheReferences) {
  const tokenizers::EncodeOptions options = Limit();
  tokenizers::Encoding encoding;
  for (size_t index = 0; index < golden_.texts.size(); ++index) {
    ASSERT_TRUE(model_->tokenizer()->Encode(golden_.texts[index], options, &encoding).ok());
    EXPECT_EQ(encoding.ids, golden_.sequences[index].ids) << "text " << index;
  }
}

class TinyEmbedderPerIsaTest : public TinyModelPerIsaTest {};

TEST_P(TinyEmbedderPerIsaTest, VectorsAgreeWithTheReference) {
  EXPECT_EQ(model_->width(OutputKind::kEmbedding), golden_.width);
  // The converter of GGUF files does not say it.
  if (path_ == directory_) {
    EXPECT_EQ(model_->pipeline().normalise, golden_.normalised);
  }
  for (size_t index = 0; index < golden_.sequences.size(); ++index) {
    const auto rows = RunBatch(*model_, {{&golden_.sequences[index]}});
    const float* expected = golden_.vectors.data() + static_cast<int64_t>(index) * golden_.width;
    EXPECT_GE(Cosine(rows[0].data(), expected, golden_.width), 0.999999) << "text " << index;
  }
}

// As served: on instruction sets with bf16 products, activations are rounded to bf16 for bf16
// weights. 2^-9 relative per product, averaged over rows of some hundred values in a few layers.
TEST_P(TinyEmbedderPerIsaTest, VectorsOfTheFastestClassStayNear) {
  const std::unique_ptr<Model> served = Load(2, ActivationPrecision::kAuto);
  for (size_t index = 0; index < golden_.sequences.size(); ++index) {
    const auto rows = RunBatch(*served, {{&golden_.sequences[index]}});
    const float* expected = golden_.vectors.data() + static_cast<int64_t>(index) * golden_.width;
    EXPECT_GE(Cosine(rows[0].data(), expected, golden_.width), 0.9999) << "text " << index;
  }
}

// Sharper than the pooled cosine, which hardly notices a window that is off by one.
TEST_P(TinyModelPerIsaTest, HiddenStatesAgreeWithTheReference) {
  ASSERT_FALSE(golden_.hidden.empty());
  const int64_t width = model_->hidden_width();
  for (const Hidden& hidden : golden_.hidden) {
    const auto rows =
        RunBatch(*model_, {{&golden_.sequences[hidden.text], {OutputKind::kTokenVectors}}});
    ASSERT_EQ(static_cast<int64_t>(rows[0].size()), hidden.rows * width);
    for (int64_t row = 0; row < hidden.rows; ++row) {
      const float* expected = golden_.hidden_values.data() + (hidden.row_offset + row) * width;
      // Both sides round in f32 in another order: each layer adds some sqrt(K) ulp to rows of norm
      // sqrt(D); 1e-4 of the row's largest value leaves a factor of ten.
      float largest = 0;
      for (int64_t col = 0; col < width; ++col) {
        largest = std::max(largest, std::abs(expected[col]));
      }
      for (int64_t col = 0; col < width; ++col) {
        ASSERT_NEAR(rows[0][static_cast<size_t>(row * width + col)], expected[col], 1e-4f * largest)
            << "text " << hidden.text << " row " << row << " column " << col;
      }
    }
  }
}

TEST_P(TinyModelPerIsaTest, BitsDependNeitherOnTheBatchNorOnThreads) {
  const std::unique_ptr<Model> served = Load(2, ActivationPrecision::kAuto);
  const std::unique_ptr<Model> one_thread = Load(1, ActivationPrecision::kAuto);
  std::vector<std::vector<float>> alone;
  for (const Sequence& sequence : golden_.sequences) {
    alone.push_back(RunBatch(*served, {{&sequence}})[0]);
  }
  std::mt19937_64 random(3);
  for (const size_t size : {2, 15, 16, 17, 64}) {
    std::vector<size_t> picks;
    std::vector<SequenceInput> batch;
    for (size_t index = 0; index < size; ++index) {
      picks.push_back(random() % golden_.sequences.size());
      batch.push_back({&golden_.sequences[picks.back()]});
    }
    for (const Model* model : {served.get(), one_thread.get()}) {
      const auto rows = RunBatch(*model, batch);
      for (size_t index = 0; index < size; ++index) {
        ASSERT_EQ(rows[index], alone[picks[index]]) << "batch of " << size << ", row " << index;
      }
    }
  }
}

TEST_P(TinyModelPerIsaTest, RefusesIdsAndLengthsThatTheModelCannotTake) {
  LocalRunner runner(*model_);
  const Sequence outside{{0, static_cast<int32_t>(model_->encoder().vocab_size())}};
  Sequence endless;
  endless.ids.assign(static_cast<size_t>(model_->encoder().max_positions()) + 1, 5);
  const Sequence empty;
  for (const Sequence* sequence :
       std::initializer_list<const Sequence*>{&outside, &endless, &empty}) {
    EXPECT_EQ(runner.Run(std::vector<SequenceInput>{{sequence}}).status().code(),
              StatusCode::kInvalidArgument);
  }
  const Sequence good{{1}};
  const SequenceInput lacking{&good, {OutputKind::kLogits}};
  EXPECT_EQ(runner.Run({&lacking, 1}).status().message(), "sequence 0: the model gives no logits");
}

// More products than up projections have rows of eight bits where that is measured (numerics.md):
// in plain BERT, and EmbeddingGemma with Dense layers and without.
TEST(NumericClassTest, SaysWhichRowsHaveEightBits) {
  const std::string tiny = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/";
  const auto class_of = [](const std::string& folder) {
    const auto model = Model::Load(folder, {.ops = {}, .weights = kernels::WeightType::kInt4});
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return model.ok() ? (*model)->facts().numeric_class : "";
  };
  if (class_of(tiny + "bert").find('(') == std::string::npos)
    GTEST_SKIP() << "no products of bytes";
  const TempFolder folder;
  const std::string bare = (folder.path() / "bare").string();
  std::filesystem::copy(tiny + "gemma3-embed", bare, std::filesystem::copy_options::recursive);
  folder.Write("bare/modules.json", R"([
      {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
      {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  for (const auto& [model, rows] :
       {std::pair<std::string, std::string>{tiny + "bert", "up, query, output"},
        {tiny + "bert-classifier", "up"},
        {tiny + "roberta", "up"},
        {tiny + "gemma3-embed", "up, query, output"},
        {bare, "up, query, output, gate"},
        {tiny + "qwen3-embed", "up"}}) {
    EXPECT_NE(class_of(model).find("before " + rows + ")"), std::string::npos) << class_of(model);
  }
}

// A span is pooled like a sequence of these token vectors, with a gap before it, between or after.
TEST_P(TinyModelPerIsaTest, SpansArePooledApart) {
  const auto longest = std::max_element(
      golden_.sequences.begin(), golden_.sequences.end(),
      [](const Sequence& a, const Sequence& b) { return a.tokens() < b.tokens(); });
  const auto tokens = static_cast<int32_t>(longest->tokens());
  ASSERT_GE(tokens, 8);
  Sequence spanned = *longest;
  spanned.spans = {{1, 3}, {3, 4}, {5, tokens}};
  const Sequence& other = golden_.sequences[0];
  LocalRunner runner(*model_);
  const std::vector<SequenceInput> batch = {
      {&other}, {&spanned, {OutputKind::kEmbedding, OutputKind::kTokenVectors}}, {&other}};
  const auto outputs = runner.Run(batch);
  ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
  const ConstF32Matrix rows = *(*outputs)->Rows(1, OutputKind::kEmbedding);
  const ConstF32Matrix hidden = *(*outputs)->Rows(1, OutputKind::kTokenVectors);
  ASSERT_EQ(rows.rows, 3);
  const std::vector<float> alone = RunBatch(*model_, {{&other}})[0];
  for (const int64_t index : {0, 2}) {
    const ConstF32Matrix row = *(*outputs)->Rows(index, OutputKind::kEmbedding);
    EXPECT_EQ(std::vector<float>(row.data, row.data + row.cols), alone);
  }
  const models::HeadConfig& head = *model_->pipeline().FindHead(OutputKind::kEmbedding);
  if (!head.layers.empty() || head.pooling != kernels::PoolingKind::kMean) return;
  for (size_t span = 0; span < spanned.spans.size(); ++span) {
    const auto [begin, end] = spanned.spans[span];
    for (int64_t col = 0; col < rows.cols; ++col) {
      double sum = 0;
      for (int32_t token = begin; token < end; ++token) sum += hidden.row(token)[col];
      EXPECT_NEAR(rows.row(static_cast<int64_t>(span))[col], sum / (end - begin), 1e-5);
    }
  }
}

// Heads on token rows: one pass gives all outputs, and asking for one of them gives the same bits.
class TinyTokenHeadsPerIsaTest : public TinyModelPerIsaTest {};

TEST_P(TinyTokenHeadsPerIsaTest, RowsAgreeWithTheReference) {
  const std::vector<float> sparse = ReadFloats(directory_ + "/sparse.f32");
  const std::vector<float> vectors = ReadFloats(directory_ + "/multi_vector.f32");
  const int64_t width = model_->width(OutputKind::kMultiVector);
  OutputSet all = {OutputKind::kMultiVector};
  if (!sparse.empty()) all.Add(OutputKind::kSparse);
  ASSERT_EQ(model_->width(OutputKind::kSparse), sparse.empty() ? 0 : 1);
  std::vector<SequenceInput> batch;
  for (const Sequence& sequence : golden_.sequences) batch.push_back({&sequence, all});
  LocalRunner runner(*model_);
  const auto outputs = runner.Run(batch);
  ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();

  size_t token = 0;
  for (size_t index = 0; index < batch.size(); ++index) {
    const auto at = static_cast<int64_t>(index);
    const ConstF32Matrix rows = *(*outputs)->Rows(at, OutputKind::kMultiVector);
    ASSERT_EQ(rows.rows, golden_.sequences[index].tokens());
    for (int64_t row = 0; row < rows.rows; ++row, ++token) {
      EXPECT_GE(Cosine(rows.row(row), vectors.data() + token * static_cast<size_t>(width), width),
                0.99999)
          << "text " << index;
      if (sparse.empty()) continue;
      const ConstF32Matrix weights = *(*outputs)->Rows(at, OutputKind::kSparse);
      EXPECT_NEAR(weights.data[row], sparse[token], 1e-4) << "text " << index;
    }
    for (const OutputKind kind : {OutputKind::kSparse, OutputKind::kMultiVector}) {
      if (!all.Has(kind)) continue;
      const ConstF32Matrix among = *(*outputs)->Rows(at, kind);
      const auto alone = RunBatch(*model_, {{&golden_.sequences[index], {kind}}})[0];
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), among.data)) << index;
    }
  }
  EXPECT_EQ(token * static_cast<size_t>(width), vectors.size());
}

class TinyClassifierPerIsaTest : public TinyModelPerIsaTest {};

TEST_P(TinyClassifierPerIsaTest, PairsAreTokenisedAsTheReferenceDoes) {
  const tokenizers::EncodeOptions options = Limit();
  tokenizers::Encoding encoding;
  for (size_t index = 0; index < golden_.pairs.size(); ++index) {
    const auto& [query, passage] = golden_.pairs[index];
    ASSERT_TRUE(model_->tokenizer()->EncodePair(query, passage, options, &encoding).ok());
    EXPECT_EQ(encoding.ids, golden_.sequences[index].ids) << "pair " << index;
  }
}

TEST_P(TinyClassifierPerIsaTest, LogitsAgreeWithTheReference) {
  ASSERT_EQ(model_->width(OutputKind::kLogits), golden_.width);
  EXPECT_EQ(model_->width(OutputKind::kEmbedding), 0);
  EXPECT_EQ(model_->pipeline().classifier.labels.size(), static_cast<size_t>(golden_.width));
  for (size_t index = 0; index < golden_.sequences.size(); ++index) {
    const auto rows = RunBatch(*model_, {{&golden_.sequences[index], {OutputKind::kLogits}}});
    for (int64_t label = 0; label < golden_.width; ++label) {
      EXPECT_NEAR(
          rows[0][static_cast<size_t>(label)],
          golden_.vectors[index * static_cast<size_t>(golden_.width) + static_cast<size_t>(label)],
          1e-4)
          << "pair " << index;
    }
  }
}

TEST_P(TinyClassifierPerIsaTest, LogitsDependNeitherOnTheBatchNorOnThreads) {
  const OutputSet both = {OutputKind::kTokenVectors, OutputKind::kLogits};
  std::vector<SequenceInput> batch;
  std::vector<std::vector<float>> alone;
  for (const Sequence& sequence : golden_.sequences) {
    alone.push_back(RunBatch(*model_, {{&sequence, {OutputKind::kLogits}}})[0]);
    batch.push_back({&sequence, batch.size() % 2 == 0 ? both : OutputSet{OutputKind::kLogits}});
  }
  const std::unique_ptr<Model> one_thread = Load(1, ActivationPrecision::kF32);
  for (const Model* model : {model_.get(), one_thread.get()}) {
    LocalRunner runner(*model);
    const auto outputs = runner.Run(batch);
    ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
    for (size_t index = 0; index < batch.size(); ++index) {
      const auto row = (*outputs)->Rows(static_cast<int64_t>(index), OutputKind::kLogits);
      EXPECT_EQ(std::vector<float>(row->data, row->data + row->cols), alone[index]) << index;
    }
  }
}

std::string TestName(const ::testing::TestParamInfo<const char*>& model) {
  std::string name = model.param;
  for (char& letter : name) {
    if (letter == '-' || letter == '/' || letter == '.') letter = '_';
  }
  return name;
}

constexpr const char* kEmbedders[] = {"bert",
                                      "bert-cls",
                                      "bert-f16",
                                      "bert-bf16",
                                      "distilbert",
                                      "mpnet",
                                      "deberta",
                                      "roberta",
                                      "xlm-roberta",

                                      "camembert",
                                      "electra",
                                      "jina-bert",
                                      "bge-m3",
                                      "nomic-bert",
                                      "gte",
                                      "modernbert",
                                      "qwen3-embed",
                                      "qwen3-embed-bf16",
                                      "qwen3-embed-sharded",
                                      "qwen3-bidir",
                                      "mistral",
                                      "llama-bidirectional",
                                      "llama-rope3",
                                      "qwen2",
                                      "qwen2-lora",
                                      "eurobert",
                                      "gemma3-embed",
                                      "embedding-gemma2",
                                      "bert/model.gguf",
                                      "distilbert/model.gguf",
                                      "xlm-roberta/model.gguf",
                                      "jina-bert/model.gguf",
                                      "nomic-bert/model.gguf",
                                      "eurobert/model.gguf",
                                      "qwen2/model.gguf",
                                      "qwen3-embed/model.gguf"};
// Causal language models without a pipeline: only their hidden states have a reference here.
constexpr const char* kLanguageModels[] = {"llama", "llama-spm-rope3", "gemma3-causal"};
constexpr const char* kClassifiers[] = {"bert-classifier",
                                        "roberta-classifier",
                                        "xlm-roberta-reranker",
                                        "electra-reranker",
                                        "deberta-reranker",
                                        "deberta-classifier",
                                        "distilbert-classifier",
                                        "modernbert-classifier",
                                        "nomic-classifier",
                                        "gte-reranker",

                                        "qwen3-reranker",
                                        "qwen3-score",
                                        "roberta-classifier/model.gguf",
                                        "distilbert-classifier/model.gguf",
                                        "xlm-roberta-reranker/model.gguf",
                                        "modernbert-classifier/model.gguf",
                                        "qwen3-reranker/model.gguf"};

INSTANTIATE_TEST_SUITE_P(Tiny, TinyModelPerIsaTest, ::testing::ValuesIn(kEmbedders), TestName);
INSTANTIATE_TEST_SUITE_P(Tiny, TinyEmbedderPerIsaTest, ::testing::ValuesIn(kEmbedders), TestName);
INSTANTIATE_TEST_SUITE_P(TinyLanguage, TinyModelPerIsaTest, ::testing::ValuesIn(kLanguageModels),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Tiny, TinyTokenHeadsPerIsaTest, ::testing::Values("bge-m3", "colbert"),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Tiny, TinyClassifierPerIsaTest, ::testing::ValuesIn(kClassifiers),
                         TestName);

}  // namespace
}  // namespace pergola::engine
