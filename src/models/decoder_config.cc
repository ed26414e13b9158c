#include "models/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace pergola::models {
namespace {

// `eos_token_id`: a number or a list of them.
std::vector<int32_t> ReadEndIds(const JsonObject& json) {
  std::vector<int32_t> ids;
  if (const auto one = json.Int("eos_token_id")) ids.push_back(static_cast<int32_t>(*one));
  for (const int64_t id : json.Ints("eos_token_id").value_or(std::vector<int64_t>{})) {
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// What language models add: the tokens that end a text, and what becomes of the logits.
Status ReadLanguageModel(const JsonObject& json, ModelConfig* config) {
  config->end_ids = ReadEndIds(json);
  const double softcap = json.Number("final_logit_softcapping").value_or(0);
  if (!(softcap >= 0)) return InvalidArgumentError(json.name() + ": final_logit_softcapping < 0");
  config->final_logit_softcap = static_cast<float>(softcap);
  return OkStatus();
}

// What Qwen and Llama share.
Result<ModelConfig> ReadPlainDecoder(const JsonObject& json, double default_rope_base) {
  ModelConfig config;
  config.architecture = json.String("model_type").value_or("");
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, {}, &config));
  PERGOLA_ASSIGN_OR_RETURN(config.activation, ReadActivation(json, "hidden_act", "silu"));
  config.norm_epsilon = static_cast<float>(json.Number("rms_norm_eps").value_or(1e-6));
  config.qkv_bias = json.Bool("attention_bias").value_or(false);
  config.attention_out_bias = config.qkv_bias;
  config.ffn_up_bias = json.Bool("mlp_bias").value_or(false);
  config.ffn_down_bias = config.ffn_up_bias;
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadRope(json, default_rope_base));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary(json.name(), &config));
  config.causal = json.Bool("is_causal").value_or(true) &&
                  !json.Bool("use_bidirectional_attention").value_or(false);
  PERGOLA_RETURN_IF_ERROR(ReadLanguageModel(json, &config));
  return config;
}

Status ReadSlidingWindow(const JsonObject& json, int64_t sliding_window, ModelConfig* config) {
  if (config->causal) {
    config->sliding_reach = sliding_window - 1;  // the window counts the query itself
    return OkStatus();
  }
  return UnimplementedError(json.name() +
                            ": a sliding window without a causal mask is not supported");
}

// Every `pattern`-th layer is full.
Status SetGgufSlidingLayers(const GgufKeys& keys, int64_t default_pattern, ModelConfig* config) {
  const int64_t pattern = keys.IntOr("attention.sliding_window_pattern", default_pattern);
  if (pattern < 1) return InvalidArgumentError("GGUF sliding_window_pattern < 1");
  for (int64_t layer = 0; layer < config->num_layers; ++layer) {
    config->layer_is_full.push_back((layer + 1) % pattern == 0);
  }
  return OkStatus();
}

Result<ModelConfig> ReadPlainDecoderGguf(const GgufKeys& keys, std::string architecture) {
  ModelConfig config;
  PERGOLA_RETURN_IF_ERROR(ReadGgufSizes(keys, &config));
  config.architecture = std::move(architecture);
  config.activation = kernels::Epilogue::kSilu;
  config.norm_epsilon = static_cast<float>(keys.FloatOr("attention.layer_norm_rms_epsilon", 1e-6));
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadGgufRope(keys, 1e4));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary("GGUF", &config));
  config.causal = keys.BoolOr("attention.causal", true);
  config.final_logit_softcap = static_cast<float>(keys.FloatOr("final_logit_softcapping", 0));
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (const auto id = keys.source().GetInt(key)) {
      config.end_ids.push_back(static_cast<int32_t>(*id));
    }
  }
  config.qkv_bias = keys.source().Find("blk.0.attn_q.bias") != nullptr;
  config.attention_out_bias = keys.source().Find("blk.0.attn_output.bias") != nullptr;
  config.ffn_up_bias = keys.source().Find("blk.0.ffn_up.bias") != nullptr;
  config.ffn_down_bias = keys.source().Find("blk.0.ffn_down.bias") != nullptr;
  return config;
}

// What both of llama.cpp's architectures of Gemma 3 have.
Result<ModelConfig> ReadGemma3Blocks(const GgufKeys& keys, int64_t* window) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadPlainDecoderGguf(keys, "gemma3_text"));
  // As ReadGemma3Config() rounds it.
  config.attention_scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_width)));
  config.activation = kernels::Epilogue::kGeluTanh;
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadGgufRope(keys, 1e6));
  PERGOLA_ASSIGN_OR_RETURN(config.rope_local, ReadGgufSlidingRope(keys, 1e4));
  PERGOLA_ASSIGN_OR_RETURN(*window, keys.Int("attention.sliding_window", 1, kMaxPositions));
  PERGOLA_RETURN_IF_ERROR(SetGgufSlidingLayers(keys, 6, &config));
  config.norm_query_key = true;
  config.norm_block_outputs = true;
  config.scale_embeddings = true;
  return config;
}

}  // namespace

Result<ModelConfig> ReadGemma3Config(const JsonObject& json) {
  ModelConfig config;
  config.architecture = "gemma3_text";
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, {}, &config));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary(json.name(), &config));
  PERGOLA_ASSIGN_OR_RETURN(config.activation,
                           ReadActivation(json, "hidden_activation", "gelu_pytorch_tanh"));
  config.norm_epsilon = static_cast<float>(json.Number("rms_norm_eps").value_or(1e-6));
  const double scalar =
      json.Number("query_pre_attn_scalar").value_or(static_cast<double>(config.head_width));
  if (!(scalar > 0)) return InvalidArgumentError(json.name() + ": query_pre_attn_scalar <= 0");
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  config.causal = !json.Bool("use_bidirectional_attention").value_or(false);
  PERGOLA_RETURN_IF_ERROR(
      RefuseSettings(json, {"attn_logit_softcapping", "rope_scaling", "attention_bias"}));
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadLayerTypeRope(json, "full_attention",
                                                          json.Number("rope_theta").value_or(1e6)));
  PERGOLA_ASSIGN_OR_RETURN(config.rope_local,
                           ReadLayerTypeRope(json, "sliding_attention",
                                             json.Number("rope_local_base_freq").value_or(1e4)));
  const int64_t pattern =
      json.Int("_sliding_window_pattern").value_or(json.Int("sliding_window_pattern").value_or(6));
  PERGOLA_RETURN_IF_ERROR(ReadLayerTypes(json, pattern, &config));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t window,
                           json.RequireInt("sliding_window", 1, kMaxPositions));
  // A causal window of n holds n keys; a bidirectional one reaches n / 2 to both sides.
  config.sliding_reach = config.causal ? window - 1 : window / 2;
  config.norm_query_key = true;
  config.norm_block_outputs = true;
  config.norm_weight_plus_one = true;
  config.scale_embeddings = true;
  PERGOLA_RETURN_IF_ERROR(ReadLanguageModel(json, &config));
  return config;
}

Result<ModelConfig> ReadQwenConfig(const JsonObject& json) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadPlainDecoder(json, 1e4));
  if (config.architecture == "qwen2") {
    config.qkv_bias = true;  // always, and only there
    config.attention_out_bias = false;
  } else {
    config.norm_query_key = true;
  }
  if (config.architecture == "bidirectional_pplx_qwen3") config.causal = false;
  if (json.Bool("use_sliding_window").value_or(false)) {
    PERGOLA_ASSIGN_OR_RETURN(const int64_t window,
                             json.RequireInt("sliding_window", 1, kMaxPositions));
    PERGOLA_RETURN_IF_ERROR(ReadSlidingWindow(json, window, &config));
    if (json.Strings("layer_types")) {
      PERGOLA_RETURN_IF_ERROR(ReadLayerTypes(json, 1, &config));
      return config;
    }
    // The first `max_window_layers` layers are full.
    const int64_t full = json.Int("max_window_layers").value_or(config.num_layers);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      config.layer_is_full.push_back(layer < full);
    }
  }
  return config;
}

Result<ModelConfig> ReadLlamaConfig(const JsonObject& json) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadPlainDecoder(json, 1e4));
  if (config.architecture == "eurobert") config.causal = false;
  if (config.architecture == "mistral" && json.Int("sliding_window")) {
    PERGOLA_ASSIGN_OR_RETURN(const int64_t window,
                             json.RequireInt("sliding_window", 1, kMaxPositions));
    PERGOLA_RETURN_IF_ERROR(ReadSlidingWindow(json, window, &config));
    config.layer_is_full.assign(static_cast<size_t>(config.num_layers), false);
  }
  return config;
}

Result<ModelConfig> ReadGemmaEmbeddingGguf(const GgufKeys& keys) {
  int64_t window = 0;
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadGemma3Blocks(keys, &window));
  config.causal = false;
  config.sliding_reach = window / 2;
  return config;
}

Result<ModelConfig> ReadGemma3Gguf(const GgufKeys& keys) {
  int64_t window = 0;
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadGemma3Blocks(keys, &window));
  config.sliding_reach = window - 1;  // the window counts the query itself
  return config;
}

Result<ModelConfig> ReadQwen2Gguf(const GgufKeys& keys) {
  return ReadPlainDecoderGguf(keys, "qwen2");
}

Result<ModelConfig> ReadEuroBertGguf(const GgufKeys& keys) {
  return ReadPlainDecoderGguf(keys, "eurobert");
}

Result<ModelConfig> ReadQwen3Gguf(const GgufKeys& keys) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadPlainDecoderGguf(keys, "qwen3"));
  config.norm_query_key = true;
  return config;
}

Result<ModelConfig> ReadLlamaGguf(const GgufKeys& keys) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadPlainDecoderGguf(keys, "llama"));
  // The converter reorders queries and keys for rotation of neighbouring pairs.
  config.interleaved_heads = true;
  return config;
}

Result<ModelConfig> ReadLlamaEmbedGguf(const GgufKeys& keys) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadLlamaGguf(keys));
  config.causal = false;
  return config;
}

}  // namespace pergola::models
