#include "models/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "models/pipeline_config.h"

namespace pergola::models {
namespace {

namespace fs = std::filesystem;

class ConfigTest : public ::testing::Test {
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
  fs::path directory_;
};

constexpr const char* kBert =
    R"({"model_type": "bert", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
        "type_vocab_size": 2, "hidden_act": "gelu" })";

TEST_F(ConfigTest, ReadsTheBertFamily) {
  const auto config = ReadHfConfig(Write("config.json", kBert));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->head_width, 4);
  EXPECT_EQ(config->max_positions, 20);
  EXPECT_EQ(config->attention_scale, 0.5f);
  const auto mpnet = ReadHfConfig(Tiny("mpnet/config.json"));
  ASSERT_TRUE(mpnet.ok());
  EXPECT_EQ(mpnet->position_offset, 2);
  EXPECT_EQ(mpnet->max_positions, 200);
}

TEST_F(ConfigTest, ReadsGemmaInBothSpellings) {
  const auto config = ReadHfConfig(Tiny("gemma3-embed/config.json"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->bidirectional);
  EXPECT_EQ(config->rope_base, 1e6);
  EXPECT_EQ(config->rope_local_base, 1e4);
  EXPECT_TRUE(config->layer_is_full[2]);
  EXPECT_FALSE(config->layer_is_full[6]);
  const auto nested = ReadHfConfig(Write(
      "nested.json",
      R"({"model_type": "gemma3_text", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 6,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": 8,
          "intermediate_size": 16, "max_position_embeddings": 20, "query_pre_attn_scalar": 16,
          "hidden_activation": "gelu_pytorch_tanh",
          "rope_parameters": {"full_attention": {"rope_theta": 5e5},
                              "sliding_attention": {"rope_theta": 2e4}}})"));
  ASSERT_TRUE(nested.ok()) << nested.status().ToString();
  EXPECT_EQ(nested->rope_base, 5e5);
  EXPECT_EQ(nested->rope_local_base, 2e4);
  EXPECT_EQ(nested->attention_scale, 0.25f);
  EXPECT_TRUE(nested->layer_is_full[5]);
}

TEST_F(ConfigTest, NamesWhatIsWrong) {
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = kBert;
    text.replace(text.find(from), from.size(), to);
    return ReadHfConfig(Write("config.json", text)).status().message();
  };
  EXPECT_NE(message("\"bert\"", "\"t5\"").find("model_type 't5' is not supported"),
            std::string::npos);
  EXPECT_NE(message("\"gelu\"", "\"mish\"").find("activation 'mish'"), std::string::npos);
  EXPECT_NE(message("_heads\": 2", "_heads\": 3").find("no multiple of 3 heads"),
            std::string::npos);
  EXPECT_NE(message("\"hidden_size\": 8", "\"hidden_size\": -8").find("'hidden_size' is -8"),
            std::string::npos);
  EXPECT_NE(message("\"vocab_size\": 10", "\"vocab\": 10").find("'vocab_size' is missing"),
            std::string::npos);
}

TEST_F(ConfigTest, ReadsTheSentencePipeline) {
  const auto config = ReadHfConfig(Tiny("gemma3-embed/config.json"));
  const auto pipeline = ReadSentencePipeline(Tiny("gemma3-embed"), *config);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  EXPECT_EQ(pipeline->dense.size(), 2u);
  EXPECT_TRUE(pipeline->normalise);
  EXPECT_EQ(pipeline->max_tokens, 512);
  EXPECT_EQ(pipeline->prompts.at("query"), "task: search result | query: ");
  const auto cls = ReadSentencePipeline(Tiny("bert-cls"), *config);
  EXPECT_EQ(cls->pooling, kernels::PoolingKind::kCls);
}

TEST_F(ConfigTest, RefusesModulesThatLeaveTheFolderOrAreUnknown) {
  const auto config = ReadHfConfig(Write("config.json", kBert));
  Write("modules.json", R"([{"path": "../x", "type": "sentence_transformers.models.Pooling"}])");
  EXPECT_NE(ReadSentencePipeline(directory_.string(), *config)
                .status()
                .message()
                .find("leaves the model's folder"),
            std::string::npos);
  Write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.LSTM"}])");
  EXPECT_EQ(ReadSentencePipeline(directory_.string(), *config).status().code(),
            StatusCode::kUnimplemented);
  Write("modules.json", R"([{"path": "p", "type": "sentence_transformers.models.Pooling"}])");
  Write("p/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_NE(ReadSentencePipeline(directory_.string(), *config)
                .status()
                .message()
                .find("'pooling_mode_max_tokens' is not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace pergola::models
