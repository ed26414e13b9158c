// Second tier: the real models from GGUF files that llama.cpp's converter and quantiser made
// (tests/gguf/make_gguf.py), against the reference library's ids and vectors (tests/golden) and,
// for 4-bit files, against the same weights widened to f32. Needs PERGOLA_GGUF_MODELS, the folder
// of the files. Comparison with llama.cpp's own vectors: tests/gguf/compare_llama.py.

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/local_runner.h"
#include "engine/model.h"
#include "engine/testing/golden_values.h"

namespace pergola::engine {
namespace {

constexpr size_t kNumTexts = 212;

// What a file's vectors are compared with, and the least cosine.
enum class Truth {
  kReference,    // the reference library's fp32 vectors
  kDequantised,  // the same file with its weights widened and f32 activations
};

struct GgufCase {
  const char* file;       // without ".gguf"
  const char* golden;     // folder in tests/golden
  const char* reference;  // its file of vectors; without Dense layers the pooled rows
  Truth truth;
  double bound;
};

void PrintTo(const GgufCase& gguf, std::ostream* out) { *out << gguf.file; }

constexpr const char* kMiniLm = "all-MiniLM-L6-v2";
constexpr const char* kGemma = "embeddinggemma-300m";

// 4-bit weights rounded without training are no longer the reference's model, and Dense layers of 8
// bits cost more than the encoder's (0.9984 to the reference, computed in f32): there what counts
// is that quantised arithmetic gives what the file's weights mean.
constexpr GgufCase kCases[] = {
    {"all-MiniLM-L6-v2-F32", kMiniLm, "vectors.f32", Truth::kReference, 0.99999},
    {"all-MiniLM-L6-v2-F16", kMiniLm, "vectors.f32", Truth::kReference, 0.9995},
    {"all-MiniLM-L6-v2-BF16", kMiniLm, "vectors.f32", Truth::kReference, 0.9995},
    {"all-MiniLM-L6-v2-Q8_0", kMiniLm, "vectors.f32", Truth::kReference, 0.999},
    {"all-MiniLM-L6-v2-Q4_0", kMiniLm, "vectors.f32", Truth::kDequantised, 0.999},
    {"all-MiniLM-L6-v2-Q4_K_M", kMiniLm, "vectors.f32", Truth::kDequantised, 0.999},
    {"embeddinggemma-300m-F32", kGemma, "pooled.f32", Truth::kReference, 0.99999},
    {"embeddinggemma-300m-F16", kGemma, "pooled.f32", Truth::kReference, 0.9995},
    {"embeddinggemma-300m-BF16", kGemma, "pooled.f32", Truth::kReference, 0.9995},
    {"embeddinggemma-300m-Q8_0", kGemma, "pooled.f32", Truth::kReference, 0.999},
    {"embeddinggemma-300m-Q4_0", kGemma, "pooled.f32", Truth::kDequantised, 0.999},
    {"embeddinggemma-300m-Q4_K_M", kGemma, "pooled.f32", Truth::kDequantised, 0.999},
    {"embeddinggemma-300m-dense-F32", kGemma, "vectors.f32", Truth::kReference, 0.99999},
    {"embeddinggemma-300m-dense-Q8_0", kGemma, "vectors.f32", Truth::kDequantised, 0.999},
    {"embeddinggemma-300m-dense-Q4_0", kGemma, "vectors.f32", Truth::kDequantised, 0.999},
};

std::vector<std::string> ReadTexts() {
  simdjson::dom::parser parser;
  const simdjson::dom::element root =
      parser.load(std::string(PERGOLA_TEST_DATA) + "/golden/texts.json");
  const simdjson::dom::element list = root.is_array() ? root : root["texts"].value();
  std::vector<std::string> texts;
  for (const simdjson::dom::element text : list.get_array()) {
    texts.emplace_back(std::string_view(text["text"]));
  }
  return texts;
}

std::vector<std::vector<int32_t>> ReadIds(const std::string& path) {
  simdjson::dom::parser parser;
  std::vector<std::vector<int32_t>> all;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    std::vector<int32_t> ids;
    for (const int64_t id : parser.parse(line)["ids"].get_array()) {
      ids.push_back(static_cast<int32_t>(id));
    }
    all.push_back(std::move(ids));
  }
  return all;
}

class GgufModelTest : public ::testing::TestWithParam<GgufCase> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERGOLA_GGUF_MODELS");
    if (folder == nullptr) GTEST_SKIP() << "PERGOLA_GGUF_MODELS is not set";
    path_ = std::string(folder) + "/" + GetParam().file + ".gguf";
    golden_ = std::string(PERGOLA_TEST_DATA) + "/golden/" + GetParam().golden;
    texts_ = ReadTexts();
    ids_ = ReadIds(golden_ + "/tokens.jsonl");
    ASSERT_EQ(texts_.size(), kNumTexts);
    ASSERT_EQ(ids_.size(), kNumTexts);
    Cut();
  }

  std::unique_ptr<Model> Load(const ModelOptions& options) const {
    auto model = Model::Load(path_, options);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return model.ok() ? std::move(*model) : nullptr;
  }

  // The reference has no vector for a text with an id beyond its embedding table.
  bool HasVector(size_t text) const {
    return *std::max_element(ids_[text].begin(), ids_[text].end()) < vocab_size_;
  }

  std::string path_;
  std::string golden_;
  std::vector<std::string> texts_;
  std::vector<std::vector<int32_t>> ids_;  // of the reference
  std::vector<Sequence> cut_;              // to the length that it embedded
  int64_t vocab_size_ = 0;

 private:
  void Cut() {
    simdjson::dom::parser parser;
    const simdjson::dom::element manifest = parser.load(golden_ + "/manifest.json");
    const auto limit = static_cast<size_t>(int64_t(manifest["max_seq_length_used"]));
    vocab_size_ = std::string(GetParam().golden) == kGemma ? 262144 : 30522;
    for (const std::vector<int32_t>& whole : ids_) {
      std::vector<int32_t>& ids = cut_.emplace_back(Sequence{whole}).ids;
      if (ids.size() > limit) ids.erase(ids.begin() + static_cast<long>(limit) - 1, ids.end() - 1);
    }
  }
};

TEST_P(GgufModelTest, IdsAreTheReferencesOnAllTexts) {
  const auto model = Load({});
  ASSERT_NE(model, nullptr);
  for (size_t text = 0; text < kNumTexts; ++text) {
    // A GGUF vocabulary ends with the embedding table: a token beyond it is plain text there.
    if (!HasVector(text)) continue;
    tokenizers::Encoding encoding;
    ASSERT_TRUE(model->tokenizer()->Encode(texts_[text], {}, &encoding).ok());
    EXPECT_EQ(encoding.ids, ids_[text]) << "text " << text << ": " << texts_[text].substr(0, 200);
  }
}

TEST_P(GgufModelTest, VectorsAgreeWithTheTruth) {
  const auto model = Load({});
  ASSERT_NE(model, nullptr);
  const int64_t width = model->width(OutputKind::kEmbedding);
  const std::vector<float> reference = ReadFloats(golden_ + "/" + GetParam().reference);
  ASSERT_EQ(reference.size(), kNumTexts * static_cast<size_t>(width));
  std::unique_ptr<Model> widened;
  if (GetParam().truth == Truth::kDequantised) {
    widened = Load({.ops = {}, .activations = kernels::ActivationPrecision::kF32});
    ASSERT_NE(widened, nullptr);
  }
  LocalRunner runner(*model);
  LocalRunner widened_runner(widened ? *widened : *model);
  double worst_to_reference = 1, worst_to_widened = 1;
  for (size_t text = 0; text < kNumTexts; ++text) {
    if (!HasVector(text)) continue;
    const SequenceInput input{&cut_[text]};
    auto outputs = runner.Run({&input, 1});
    ASSERT_TRUE(outputs.ok()) << "text " << text << ": " << outputs.status().ToString();
    const float* vector = (*outputs)->Rows(0, OutputKind::kEmbedding)->data;
    double cosine = Cosine(vector, reference.data() + text * static_cast<size_t>(width), width);
    worst_to_reference = std::min(worst_to_reference, cosine);
    if (widened != nullptr) {
      auto truth = widened_runner.Run({&input, 1});
      ASSERT_TRUE(truth.ok()) << truth.status().ToString();
      cosine = Cosine(vector, (*truth)->Rows(0, OutputKind::kEmbedding)->data, width);
      worst_to_widened = std::min(worst_to_widened, cosine);
    }
    EXPECT_GE(cosine, GetParam().bound) << "text " << text;
  }
  std::printf("%s (%s): worst cosine to the reference %.7f", GetParam().file,
              model->facts().numeric_class.c_str(), worst_to_reference);
  if (widened != nullptr) std::printf(", to its own weights in f32 %.7f", worst_to_widened);
  std::printf("\n");
}

// One text alone on one thread, and within a batch of mixed lengths on two.
TEST_P(GgufModelTest, BitsDependNeitherOnTheBatchNorOnThreads) {
  const auto one = Load({.ops = {.num_threads = 1}});
  const auto two = Load({.ops = {.num_threads = 2}});
  ASSERT_TRUE(one != nullptr && two != nullptr);
  std::vector<SequenceInput> batch;
  for (size_t text = 0; batch.size() < 17; text += 5) {
    if (HasVector(text) && cut_[text].tokens() <= 160) batch.push_back({&cut_[text]});
  }
  LocalRunner alone(*one);
  LocalRunner together(*two);
  auto rows = together.Run(batch);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  const size_t row_bytes = static_cast<size_t>(one->width(OutputKind::kEmbedding)) * sizeof(float);
  for (size_t index = 0; index < batch.size(); ++index) {
    auto row = alone.Run({&batch[index], 1});
    ASSERT_TRUE(row.ok()) << row.status().ToString();
    EXPECT_EQ(std::memcmp((*row)->Rows(0, OutputKind::kEmbedding)->data,
                          (*rows)->Rows(static_cast<int64_t>(index), OutputKind::kEmbedding)->data,
                          row_bytes),
              0)
        << "sequence " << index << " of " << batch[index].sequence->tokens() << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufModelTest, ::testing::ValuesIn(kCases), [](const auto& gguf) {
  std::string name = gguf.param.file;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace pergola::engine
