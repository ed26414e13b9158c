#include "models/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "formats/memory_source.h"
#include "models/config_reader.h"

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

TEST_F(ConfigTest, ReadsElectraUnlessItsTableIsNarrower) {
  const auto config = ReadHfConfig(Tiny("electra/config.json"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->position_offset, 0);
  std::string json = kBert;
  json.replace(json.find("\"bert\""), 6, R"("electra")");
  json.replace(json.rfind('}'), 1, R"(, "embedding_size": 4})");
  const Status status = ReadHfConfig(Write("config.json", json)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("'embedding_size'"), std::string::npos) << status.ToString();
}

// It calls itself "bert".
TEST_F(ConfigTest, ReadsJinaBertAndRefusesItsOtherFeedForwardBlocks) {
  std::string json = kBert;
  json.replace(json.rfind('}'), 1, R"(, "position_embedding_type": "alibi"})");
  EXPECT_EQ(ReadHfConfig(Write("plain.json", json)).status().code(), StatusCode::kUnimplemented);
  json.replace(json.rfind('}'), 1, R"(, "feed_forward_type": "reglu"})");
  const auto config = ReadHfConfig(Write("config.json", json));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->architecture, "jina_bert");
  EXPECT_TRUE(config->alibi);
  EXPECT_EQ(config->positions, PositionKind::kNone);
  EXPECT_EQ(config->activation, kernels::Epilogue::kRelu);
  EXPECT_FALSE(config->ffn_up_bias);
  EXPECT_TRUE(config->ffn_down_bias);
}

TEST_F(ConfigTest, ReadsGemmaInBothSpellings) {
  const auto config = ReadHfConfig(Tiny("gemma3-embed/config.json"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_FALSE(config->causal);
  EXPECT_EQ(config->rope.base, 1e6);
  EXPECT_EQ(config->rope_local.base, 1e4);
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
  EXPECT_EQ(nested->rope.base, 5e5);
  EXPECT_EQ(nested->rope_local.base, 2e4);
  EXPECT_EQ(nested->attention_scale, 0.25f);
  EXPECT_TRUE(nested->layer_is_full[5]);
}

TEST_F(ConfigTest, RobertaPositionsBeginBehindThePaddingToken) {
  for (const char* name : {"roberta", "xlm-roberta"}) {
    const auto config = ReadHfConfig(Tiny(std::string(name) + "/config.json"));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->position_offset, 2);
    EXPECT_EQ(config->max_positions, 256);
  }
}

TEST_F(ConfigTest, ReadsDecodersInBothSpellings) {
  const auto classic = ReadHfConfig(Tiny("qwen3-embed/config.json"));
  const auto recent = ReadHfConfig(Write("config.json", R"({
      "model_type": "qwen3", "vocab_size": 908, "hidden_size": 64, "num_hidden_layers": 3,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "hidden_act": "silu",
      "intermediate_size": 160, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
      "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "dtype": "float32"})"));
  for (const auto* config : {&classic, &recent}) {
    ASSERT_TRUE(config->ok()) << config->status().ToString();
    EXPECT_EQ((*config)->rope.base, 1e6);
    EXPECT_EQ((*config)->num_kv_heads, 2);
    EXPECT_TRUE((*config)->causal);
    EXPECT_TRUE((*config)->norm_query_key);
  }
  const auto llama = ReadHfConfig(Tiny("llama-spm-rope3/config.json"));
  ASSERT_TRUE(llama.ok()) << llama.status().ToString();
  EXPECT_EQ(llama->rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(llama->rope.original_positions, 128);
  const auto pplx = ReadHfConfig(Tiny("qwen3-bidir/config.json"));
  ASSERT_TRUE(pplx.ok()) << pplx.status().ToString();
  EXPECT_FALSE(pplx->causal);
}

constexpr const char* kMistral =
    R"({"model_type": "mistral", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
        "sliding_window": 6, "is_causal": true, "rope_scaling": null })";

TEST_F(ConfigTest, MistralSlidesInEveryLayer) {
  const auto config = ReadHfConfig(Write("config.json", kMistral));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->layer_is_full, std::vector<bool>(2, false));
  EXPECT_EQ(config->sliding_reach, 5);
  EXPECT_EQ(config->num_kv_heads, 2);
}

TEST_F(ConfigTest, RefusesSettingsOfDecodersThatWouldChangeResults) {
  const auto status = [&](const std::string& from, const std::string& to) {
    std::string text = kMistral;
    text.replace(text.find(from), from.size(), to);
    return ReadHfConfig(Write("config.json", text)).status();
  };
  EXPECT_EQ(
      status("\"rope_scaling\": null", R"("rope_scaling": {"type": "yarn", "factor": 2})").code(),
      StatusCode::kUnimplemented);
  EXPECT_EQ(status("\"rope_scaling\": null", R"("rope_scaling": {"type": "linear"})").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status("\"rope_scaling\": null", R"("rope_scaling": {"type": "linear", "factor": 1e-30})")
          .code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(status("\"rope_scaling\": null", R"("rope_theta": 0)").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(status("\"is_causal\": true", R"("is_causal": false)").code(),
            StatusCode::kUnimplemented);
}

TEST_F(ConfigTest, ReadsNomicBertInTheOriginalSpelling) {
  const std::string original =
      R"({"model_type": "nomic_bert", "vocab_size": 10, "n_embd": 8, "n_layer": 1, "n_head": 2,
          "n_inner": 16, "n_positions": 20, "activation_function": "swiglu", "type_vocab_size": 2,
          "rotary_emb_base": 500, "rotary_emb_fraction": 1.0, "layer_norm_epsilon": 1e-6,
          "qkv_proj_bias": false, "prenorm": false })";
  const auto config = ReadHfConfig(Write("config.json", original));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->rope.base, 500);
  EXPECT_EQ(config->activation, kernels::Epilogue::kSilu);
  EXPECT_EQ(config->norm_epsilon, 1e-6f);
  EXPECT_FALSE(config->qkv_bias);
  std::string prenorm = original;
  prenorm.replace(prenorm.find("\"prenorm\": false"), 16, "\"prenorm\": true");
  EXPECT_NE(ReadHfConfig(Write("config.json", prenorm)).status().message().find("'prenorm'"),
            std::string::npos);
}

TEST_F(ConfigTest, ReadsDebertaAndRefusesWhatWouldChangeResults) {
  const std::string v3 =
      R"({"model_type": "deberta-v2", "vocab_size": 10, "hidden_size": 128, "num_hidden_layers": 1,
          "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 512,
          "type_vocab_size": 0, "relative_attention": true, "position_buckets": 256,
          "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p",
          "position_biased_input": false, "max_relative_positions": -1 })";
  const auto config = ReadHfConfig(Write("config.json", v3));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->positions, PositionKind::kNone);
  EXPECT_EQ(config->disentangled.max_distance, 512);
  EXPECT_EQ(config->disentangled.table_rows(), 512);
  EXPECT_TRUE(config->disentangled.keys && config->disentangled.queries);
  EXPECT_TRUE(config->disentangled.shared && config->disentangled.normed);
  EXPECT_NEAR(config->attention_scale, 0.0721687836, 1e-8);  // (3 * 64)^-1/2
  const auto status = [&](const std::string& from, const std::string& to) {
    std::string text = v3;
    text.replace(text.find(from), from.size(), to);
    return ReadHfConfig(Write("config.json", text)).status();
  };
  const auto conv = status("\"type_vocab_size\": 0", R"("conv_kernel_size": 3)");
  EXPECT_EQ(conv.code(), StatusCode::kUnimplemented);
  EXPECT_NE(conv.message().find("'conv_kernel_size'"), std::string::npos);
  EXPECT_EQ(status("\"relative_attention\": true", R"("relative_attention": false)").code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(status("p2c|c2p", "p2c|p2p").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(status("\"type_vocab_size\": 0", R"("embedding_size": 64)").code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(status("\"position_buckets\": 256", R"("position_buckets": 2)").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(status("\"position_buckets\": 256", R"("position_buckets": 1200)").code(),
            StatusCode::kInvalidArgument);
}

// gte-large-en-v1.5: factor 2, heads of 64.
TEST_F(ConfigTest, ReadsTheRotaryScalingOfGte) {
  const auto config = ReadHfConfig(Write("config.json", R"({
      "model_type": "new", "vocab_size": 10, "hidden_size": 128, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
      "type_vocab_size": 2, "rope_theta": 160000, "rope_scaling": {"factor": 2.0, "type": "ntk"},
      "layer_norm_type": "layer_norm", "logn_attention_scale": false, "pack_qkv": true})"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->rope.base, 320000);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kLinear);
  EXPECT_NEAR(config->rope.factor, 1.0218971486541166, 1e-12);  // 2^(1/32)
}

TEST_F(ConfigTest, ReadsModernBertInBothSpellings) {
  const auto classic = ReadHfConfig(Tiny("modernbert/config.json"));
  ASSERT_TRUE(classic.ok()) << classic.status().ToString();
  EXPECT_EQ(classic->layer_is_full,
            (std::vector<bool>{true, false, false, true, false, false, true}));
  EXPECT_EQ(classic->sliding_reach, 8);
  EXPECT_EQ(classic->rope.base, 160000);
  const auto recent = ReadHfConfig(Write("config.json", R"({
      "model_type": "modernbert", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
      "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
      "local_attention": 6, "layer_types": ["sliding_attention", "full_attention"],
      "rope_parameters": {"full_attention": {"rope_theta": 5e5},
                          "sliding_attention": {"rope_theta": 2e4}}})"));
  ASSERT_TRUE(recent.ok()) << recent.status().ToString();
  EXPECT_EQ(recent->layer_is_full, (std::vector<bool>{false, true}));
  EXPECT_EQ(recent->rope.base, 5e5);
  EXPECT_EQ(recent->rope_local.base, 2e4);
}

TEST_F(ConfigTest, NamesTheNearestGgufArchitecture) {
  formats::MemorySource source;
  EXPECT_NE(ReadGgufConfig(source).status().message().find("'general.architecture' is missing"),
            std::string::npos);
  ASSERT_TRUE(source.Set("general.architecture", "qwen3moe").ok());
  const Status status = ReadGgufConfig(source).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("GGUF architecture 'qwen3moe' is not supported: no forward pass "
                                  "for it; nearest supported: 'qwen3'"),
            std::string::npos)
      << status.message();
}

// With W = `head_width` and P positions.
std::string Rotary(int64_t head_width, int64_t positions) {
  return R"({"model_type": "qwen2", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1,
             "num_attention_heads": 2, "intermediate_size": 16, "head_dim": )" +
         std::to_string(head_width) +
         ", \"max_position_embeddings\": " + std::to_string(positions) + "}";
}

TEST_F(ConfigTest, RotaryHeadsAreEvenAndPositionsLimited) {
  const auto config = ReadHfConfig(Write("config.json", Rotary(6, 1 << 20)));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->max_positions, kMaxRotaryPositions);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->attention_out_bias);
  EXPECT_NE(
      ReadHfConfig(Write("config.json", Rotary(5, 64))).status().message().find("an odd number"),
      std::string::npos);
}

TEST_F(ConfigTest, ReadsTheTextTowerOfEmbeddingGemma2) {
  const auto tiny = ReadHfConfig(Tiny("embedding-gemma2/config.json"));
  ASSERT_TRUE(tiny.ok()) << tiny.status().ToString();
  EXPECT_EQ(tiny->full_head_width, 24);
  EXPECT_EQ(tiny->full_num_kv_heads, 1);
  EXPECT_EQ(tiny->sliding_reach, 4);
  EXPECT_EQ(tiny->output_width, 64);
  const std::string text = R"({
      "model_type": "embedding_gemma2_text", "vocab_size": 10, "hidden_size": 8,
      "num_hidden_layers": 8, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
      "intermediate_size": 16, "max_position_embeddings": 262144, "sliding_window": 512,
      "hidden_size_per_layer_input": 4, "embedding_dim": 16, "per_layer_config": {}})";
  const auto config = ReadHfConfig(Write("config.json", text));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->max_positions, 8192);
  EXPECT_EQ(config->full_head_width, 512);
  EXPECT_TRUE(config->layer_is_full[5]);
  EXPECT_TRUE(config->layer_is_full[7]);  // the last one always is
  std::string sliding = text;
  sliding.replace(sliding.find("{}"), 2, R"({"0": {"head_dim": 8, "num_key_value_heads": 1}})");
  EXPECT_EQ(ReadHfConfig(Write("config.json", sliding)).status().code(),
            StatusCode::kUnimplemented);
}

TEST_F(ConfigTest, NamesWhatIsWrong) {
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = kBert;
    text.replace(text.find(from), from.size(), to);
    return ReadHfConfig(Write("config.json", text)).status().message();
  };
  EXPECT_NE(
      message("\"bert\"", "\"roberto\"")
          .find("model_type 'roberto' is not supported: no forward pass for it; nearest supported: "
                "'roberta' (all: bert "),
      std::string::npos);
  EXPECT_NE(message("model_type", "model").find("'model_type' is missing"), std::string::npos);
  EXPECT_NE(message("\"gelu\"", "\"mish\"").find("activation 'mish'"), std::string::npos);
  EXPECT_NE(message("_heads\": 2", "_heads\": 3").find("no multiple of 3 heads"),
            std::string::npos);
  EXPECT_NE(message("\"hidden_size\": 8", "\"hidden_size\": -8").find("'hidden_size' is -8"),
            std::string::npos);
  EXPECT_NE(message("\"vocab_size\": 10", "\"vocab\": 10").find("'vocab_size' is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace pergola::models
