// Encoders from GGUF files that llama.cpp's converter made of tiny models (tests/golden/tiny,
// make_tiny_gguf.py): the same rows as from safetensors. There the values are the reference's
// (engine/tiny_models_test.cc); here only names, metadata and the order of rows can be wrong.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/select.h"
#include "models/config.h"
#include "models/pipeline_config.h"
#include "models/registry.h"
#include "models/workspace.h"

namespace pergola::models {
namespace {

class GgufEncoderPerIsaTest : public ::testing::TestWithParam<const char*> {
 protected:
  struct Loaded {
    std::unique_ptr<formats::TensorSource> source;
    ModelConfig config;
    PipelineConfig pipeline;
    std::unique_ptr<Encoder> encoder;
  };

  void SetUp() override {
    auto ops = kernels::MakeOps({});
    ASSERT_TRUE(ops.ok()) << ops.status().ToString();
    ops_ = std::move(*ops);
    directory_ = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + GetParam();
  }

  Result<Loaded> Load(const std::string& path) {
    Loaded loaded;
    PERGOLA_ASSIGN_OR_RETURN(loaded.source, formats::OpenTensorSource(path));
    if (loaded.source->format() == "gguf") {
      PERGOLA_ASSIGN_OR_RETURN(loaded.config, ReadGgufConfig(*loaded.source));
      PERGOLA_ASSIGN_OR_RETURN(loaded.pipeline, ReadGgufPipeline(*loaded.source, loaded.config));
    } else {
      PERGOLA_ASSIGN_OR_RETURN(loaded.config, ReadHfConfig(path + "/config.json"));
      PERGOLA_ASSIGN_OR_RETURN(loaded.pipeline,
                               ReadSentencePipeline(path, loaded.config, *loaded.source));
    }
    PERGOLA_ASSIGN_OR_RETURN(loaded.encoder, LoadEncoder(loaded.config, *loaded.source, *ops_, {}));
    return loaded;
  }

  // Final rows of one sequence of 60 tokens, its second half of the second type.
  std::vector<float> Run(const Loaded& loaded) {
    constexpr int32_t kTokens = 60;
    std::vector<int32_t> ids, positions, types;
    for (int32_t position = 0; position < kTokens; ++position) {
      ids.push_back(10 + position * 37 % 700);
      positions.push_back(position);
      types.push_back(loaded.config.num_token_types > 1 && position >= kTokens / 2 ? 1 : 0);
    }
    const std::vector<int32_t> cu_seqlens = {0, kTokens};
    std::vector<float> rows(static_cast<size_t>(kTokens * loaded.encoder->hidden_width()));
    Workspace workspace;
    const ThreadPool::Pass pass(ops_->threads());
    const Status status =
        loaded.encoder->Forward({ids, positions, types, cu_seqlens}, workspace,
                                {rows.data(), kTokens, loaded.encoder->hidden_width()});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return rows;
  }

  std::unique_ptr<kernels::Ops> ops_;
  std::string directory_;
};

TEST_P(GgufEncoderPerIsaTest, GivesTheRowsOfSafetensors) {
  const auto expected = Load(directory_);
  const auto gguf = Load(directory_ + "/model.gguf");
  ASSERT_TRUE(expected.ok()) << expected.status().ToString();
  ASSERT_TRUE(gguf.ok()) << gguf.status().ToString();
  const std::vector<float> a = Run(*expected);
  const std::vector<float> b = Run(*gguf);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    // The same products in the same order; rotary frequencies divide in another one.
    ASSERT_NEAR(a[i], b[i], 2e-5f * std::max(1.0f, std::abs(a[i]))) << i;
  }
}

TEST_P(GgufEncoderPerIsaTest, HasTheHeadsOfSafetensors) {
  const auto expected = Load(directory_);
  const auto gguf = Load(directory_ + "/model.gguf");
  ASSERT_TRUE(expected.ok() && gguf.ok());
  EXPECT_EQ(gguf->config.max_positions, expected->config.max_positions);
  for (const OutputKind kind : {OutputKind::kEmbedding, OutputKind::kLogits}) {
    const HeadConfig* a = expected->pipeline.FindHead(kind);
    const HeadConfig* b = gguf->pipeline.FindHead(kind);
    ASSERT_EQ(a == nullptr, b == nullptr) << OutputKindName(kind);
    if (a == nullptr) continue;
    EXPECT_EQ(a->pooling, b->pooling);
    ASSERT_EQ(a->layers.size(), b->layers.size());
    for (size_t i = 0; i < a->layers.size(); ++i) {
      EXPECT_EQ(a->layers[i].activation, b->layers[i].activation);
      EXPECT_EQ(a->layers[i].bias, b->layers[i].bias);
      EXPECT_EQ(a->layers[i].norm.empty(), b->layers[i].norm.empty());
      EXPECT_EQ(a->layers[i].difference, b->layers[i].difference);
    }
  }
  EXPECT_EQ(gguf->pipeline.classifier.labels, expected->pipeline.classifier.labels);
}

INSTANTIATE_TEST_SUITE_P(Tiny, GgufEncoderPerIsaTest,
                         ::testing::Values("bert", "distilbert", "distilbert-classifier",
                                           "roberta-classifier", "xlm-roberta",
                                           "xlm-roberta-reranker", "jina-bert", "nomic-bert",
                                           "modernbert-classifier", "eurobert", "qwen2",
                                           "qwen3-embed", "qwen3-reranker", "llama-rope3",
                                           "llama-bidirectional"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace pergola::models
