#include "models/pipeline_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "formats/memory_source.h"

namespace pergola::models {
namespace {

namespace fs = std::filesystem;

class PipelineConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        fs::path(::testing::TempDir()) /
        ("pergola_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string Write(const std::string& name, const std::string& text) {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name) << text;
    return (directory_ / name).string();
  }
  static std::string Tiny(const std::string& name) {
    return std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name;
  }
  // A model of which only the files beside the weights matter.
  Result<PipelineConfig> Read(const std::string& directory, const ModelConfig& config) {
    return ReadSentencePipeline(directory, config, source_);
  }
  // The folder's own configuration with `config_json`; tensors are in source_.
  Result<PipelineConfig> ReadFolder(const std::string& config_json) {
    const auto config = ReadHfConfig(Write("config.json", config_json));
    EXPECT_TRUE(config.ok()) << config.status().ToString();
    return Read(directory_.string(), *config);
  }
  void AddTensor(const std::string& name, int64_t rows) {
    ASSERT_TRUE(source_.AddF32(name, Shape{rows, 8}, std::vector<float>(rows * 8)).ok());
  }
  fs::path directory_;
  formats::MemorySource source_;
};

constexpr const char* kBert =
    R"({"model_type": "bert", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
        "type_vocab_size": 2, "hidden_act": "gelu" })";

TEST_F(PipelineConfigTest, AssumesAPipelineWhereNoneIsDeclared) {
  const auto pplx = ReadHfConfig(Tiny("qwen3-bidir/config.json"));
  const auto pipeline = Read(Tiny("qwen3-bidir"), *pplx);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  EXPECT_EQ(pipeline->FindHead(OutputKind::kEmbedding)->pooling, kernels::PoolingKind::kMean);
  EXPECT_FALSE(pipeline->normalise);
  EXPECT_EQ(pipeline->output, OutputConvention::kTanhInt8);
  const auto llama = ReadHfConfig(Tiny("llama/config.json"));
  const auto last = Read(Tiny("llama"), *llama);
  EXPECT_EQ(last->FindHead(OutputKind::kEmbedding)->pooling, kernels::PoolingKind::kLastToken);
  EXPECT_TRUE(last->normalise);
  EXPECT_EQ(last->output, OutputConvention::kScaled);
}

TEST_F(PipelineConfigTest, ReadsTheSentencePipeline) {
  const auto config = ReadHfConfig(Tiny("gemma3-embed/config.json"));
  const auto pipeline = Read(Tiny("gemma3-embed"), *config);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  EXPECT_EQ(pipeline->FindHead(OutputKind::kEmbedding)->layers.size(), 2u);
  EXPECT_TRUE(pipeline->normalise);
  EXPECT_EQ(pipeline->max_tokens, 512);
  EXPECT_EQ(pipeline->prompts.at("query"), "task: search result | query: ");
  const auto cls = Read(Tiny("bert-cls"), *config);
  EXPECT_EQ(cls->FindHead(OutputKind::kEmbedding)->pooling, kernels::PoolingKind::kCls);
}

TEST_F(PipelineConfigTest, RefusesModulesThatLeaveTheFolderOrAreUnknown) {
  const auto config = ReadHfConfig(Write("config.json", kBert));
  Write("modules.json", R"([{"path": "../x", "type": "sentence_transformers.models.Pooling"}])");
  EXPECT_NE(Read(directory_.string(), *config).status().message().find("leaves the model's folder"),
            std::string::npos);
  Write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.LSTM"}])");
  EXPECT_EQ(Read(directory_.string(), *config).status().code(), StatusCode::kUnimplemented);
  Write("modules.json", R"([{"path": "p", "type": "sentence_transformers.models.Pooling"}])");
  Write("p/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_NE(Read(directory_.string(), *config)
                .status()
                .message()
                .find("'pooling_mode_max_tokens' is not supported"),
            std::string::npos);
}

// kBert as a checkpoint of a task class, with more settings.
std::string BertOf(const std::string& task, const std::string& settings) {
  std::string text = kBert;
  text.replace(text.rfind('}'), 1, ", \"architectures\": [\"" + task + "\"]" + settings + "}");
  return text;
}

TEST_F(PipelineConfigTest, ReadsAClassificationHeadWithLabelsInTheOrderOfTheirNumbers) {
  AddTensor("bert.pooler.dense.weight", 8);
  std::string labels;
  for (int label = 11; label >= 0; --label) {
    labels += (labels.empty() ? "" : ", ") + ("\"" + std::to_string(label) + "\": \"L") +
              std::to_string(label) + "\"";
  }
  const auto pipeline =
      ReadFolder(BertOf("BertForSequenceClassification", ", \"id2label\": {" + labels + "}"));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  EXPECT_EQ(pipeline->FindHead(OutputKind::kEmbedding), nullptr);
  const HeadConfig& head = *pipeline->FindHead(OutputKind::kLogits);
  EXPECT_EQ(head.pooling, kernels::PoolingKind::kCls);
  ASSERT_EQ(head.layers.size(), 2u);
  EXPECT_EQ(head.layers[0].linear, "bert.pooler.dense");
  EXPECT_EQ(head.layers[0].activation, kernels::Epilogue::kTanh);
  EXPECT_EQ(head.layers[1].linear, "classifier");
  ASSERT_EQ(pipeline->classifier.labels.size(), 12u);
  EXPECT_EQ(pipeline->classifier.labels[2], "L2");
  EXPECT_EQ(pipeline->classifier.labels[11], "L11");
  EXPECT_EQ(pipeline->classifier.function, ScoreFunction::kSoftmax);
}

TEST_F(PipelineConfigTest, ADeclaredEmbeddingOutlivesTheNameOfAClassifier) {
  Write("modules.json", R"([{"path": "p", "type": "sentence_transformers.models.Pooling"}])");
  Write("p/config.json", R"({"pooling_mode_mean_tokens": true})");
  const std::string config = BertOf("BertForSequenceClassification", "");
  const auto without = ReadFolder(config);
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(without->FindHead(OutputKind::kLogits), nullptr);
  EXPECT_NE(without->FindHead(OutputKind::kEmbedding), nullptr);
  AddTensor("classifier.weight", 2);
  const auto both = ReadFolder(config);
  EXPECT_NE(both->FindHead(OutputKind::kLogits), nullptr);
  EXPECT_NE(both->FindHead(OutputKind::kEmbedding), nullptr);
}

TEST_F(PipelineConfigTest, SeveralLabelsAtOnceAreSigmoids) {
  const auto pipeline = ReadFolder(BertOf("BertForSequenceClassification",
                                          ", \"problem_type\": \"multi_label_classification\""));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  EXPECT_EQ(pipeline->classifier.function, ScoreFunction::kSigmoid);
}

TEST_F(PipelineConfigTest, ModernBertConfiguresItsHead) {
  const auto pipeline = ReadFolder(R"({
      "model_type": "modernbert", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
      "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
      "local_attention": 6, "architectures": ["ModernBertForSequenceClassification"],
      "classifier_pooling": "mean", "classifier_bias": true, "classifier_activation": "silu"})");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  const HeadConfig& head = *pipeline->FindHead(OutputKind::kLogits);
  EXPECT_EQ(head.pooling, kernels::PoolingKind::kMean);
  EXPECT_TRUE(head.layers[0].bias);
  EXPECT_EQ(head.layers[0].activation, kernels::Epilogue::kSilu);
  EXPECT_EQ(head.layers[0].norm, "head.norm");
}

constexpr const char* kQwen =
    R"({"model_type": "qwen3", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
        "classifier_from_token": ["no", "yes"] })";

TEST_F(PipelineConfigTest, FoldsTwoTokensOfALanguageModelIntoOneScore) {
  AddTensor("model.embed_tokens.weight", 10);
  const auto pipeline = ReadFolder(kQwen);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  const HeadConfig& head = *pipeline->FindHead(OutputKind::kLogits);
  EXPECT_EQ(head.pooling, kernels::PoolingKind::kLastToken);
  ASSERT_EQ(head.layers.size(), 1u);
  EXPECT_EQ(head.layers[0].linear, "model.embed_tokens");
  EXPECT_EQ(head.layers[0].tokens, (std::vector<std::string>{"yes", "no"}));
  EXPECT_TRUE(head.layers[0].difference);
  ASSERT_TRUE(pipeline->classifier.pair_template.has_value());
  EXPECT_NE(pipeline->classifier.pair_template->body.find("{query}"), std::string::npos);
}

TEST_F(PipelineConfigTest, OneTokenIsALogitAndAnUntiedHeadComesFirst) {
  AddTensor("model.embed_tokens.weight", 10);
  AddTensor("lm_head.weight", 10);
  std::string config = kQwen;
  config.replace(config.find("\"no\", "), 6, "");
  const auto pipeline = ReadFolder(config);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  const HeadLayerConfig& layer = pipeline->FindHead(OutputKind::kLogits)->layers[0];
  EXPECT_EQ(layer.linear, "lm_head");
  EXPECT_EQ(layer.tokens, std::vector<std::string>{"yes"});
  EXPECT_FALSE(layer.difference);
}

TEST_F(PipelineConfigTest, FindsSparseAndMultiVectorHeadsInTheModelOrBesideIt) {
  AddTensor("sparse_linear.weight", 1);
  const std::string file = Write("colbert_linear.safetensors", "");
  const auto pipeline = ReadFolder(kBert);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  const HeadLayerConfig& sparse = pipeline->FindHead(OutputKind::kSparse)->layers[0];
  EXPECT_EQ(sparse.linear, "sparse_linear");
  EXPECT_EQ(sparse.activation, kernels::Epilogue::kRelu);
  const HeadLayerConfig& multi = pipeline->FindHead(OutputKind::kMultiVector)->layers[0];
  EXPECT_EQ(multi.file, file);
  EXPECT_EQ(multi.linear, "");
  EXPECT_NE(pipeline->FindHead(OutputKind::kEmbedding), nullptr);
}

TEST_F(PipelineConfigTest, DenseWithoutPoolingIsAVectorPerToken) {
  Write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                            {"path": "1_Dense", "type": "pylate.models.Dense.Dense"}])");
  Write("1_Dense/config.json", R"({"in_features": 8, "out_features": 4, "bias": false,
                                   "activation_function": "torch.nn.modules.linear.Identity"})");
  const auto pipeline = ReadFolder(kBert);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  EXPECT_EQ(pipeline->FindHead(OutputKind::kEmbedding), nullptr);
  EXPECT_EQ(pipeline->FindHead(OutputKind::kMultiVector)->layers[0].outputs, 4);
}

TEST_F(PipelineConfigTest, ReadsARankingGgufWithItsLabels) {
  AddTensor("token_embd.weight", 10);
  AddTensor("cls.weight", 8);
  AddTensor("cls.output.weight", 3);
  ASSERT_TRUE(source_.Set("general.architecture", "bert").ok());
  ASSERT_TRUE(source_.Set("bert.pooling_type", int64_t{4}).ok());
  ASSERT_TRUE(source_.Set("bert.classifier.output_labels", {"a", "b", "c"}).ok());
  ModelConfig config;
  config.architecture = "bert";
  config.num_token_types = 1;
  const auto pipeline = ReadGgufPipeline(source_, config);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  const HeadConfig& head = *pipeline->FindHead(OutputKind::kLogits);
  ASSERT_EQ(head.layers.size(), 2u);
  EXPECT_EQ(head.layers[0].activation, kernels::Epilogue::kTanh);
  EXPECT_FALSE(head.layers[1].bias);
  EXPECT_EQ(pipeline->classifier.labels, (std::vector<std::string>{"a", "b", "c"}));
  // DistilBERT's head has another activation.
  config.num_token_types = 0;
  EXPECT_EQ(ReadGgufPipeline(source_, config)->FindHead(OutputKind::kLogits)->layers[0].activation,
            kernels::Epilogue::kRelu);
}

TEST_F(PipelineConfigTest, RefusesARankingGgufWithoutTheClassifier) {
  ModelConfig config;
  config.architecture = "bert";
  ASSERT_TRUE(source_.Set("general.architecture", "bert").ok());
  ASSERT_TRUE(source_.Set("bert.pooling_type", int64_t{4}).ok());
  AddTensor("cls.weight", 8);
  EXPECT_EQ(ReadGgufPipeline(source_, config).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PipelineConfigTest, RefusesARankingGgufWithoutThePooler) {
  ModelConfig config;
  config.architecture = "bert";
  ASSERT_TRUE(source_.Set("general.architecture", "bert").ok());
  AddTensor("cls.output.weight", 3);
  const Status status = ReadGgufPipeline(source_, config).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("pooler"), std::string::npos) << status.ToString();
}

TEST_F(PipelineConfigTest, RefusesAHeadThatItDoesNotKnow) {
  const auto pipeline = ReadFolder(R"({
      "model_type": "llama", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
      "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
      "architectures": ["LlamaForSequenceClassification"]})");
  EXPECT_EQ(pipeline.status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(ReadFolder(R"({"model_type": "qwen3", "vocab_size": 10, "hidden_size": 8,
      "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16,
      "max_position_embeddings": 20, "is_causal": false, "classifier_from_token": ["yes"]})")
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::models
