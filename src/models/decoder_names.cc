#include "models/decoder_names.h"

#include <array>
#include <cmath>

namespace pergola::models {
namespace {

constexpr DecoderNames kHuggingFaceNames = {
    .word = "embed_tokens",
    .final_norm = "norm",
    .output = "lm_head",
    .layer = "layers.",
    .input_norm = "input_layernorm",
    .attention = {.query = "self_attn.q_proj",
                  .key = "self_attn.k_proj",
                  .value = "self_attn.v_proj",
                  .query_norm = "self_attn.q_norm",
                  .key_norm = "self_attn.k_norm",
                  .output = "self_attn.o_proj"},
    .plain_ffn_norm = "post_attention_layernorm",
    .attention_out_norm = "post_attention_layernorm",
    .ffn_norm = "pre_feedforward_layernorm",
    .ffn_out_norm = "post_feedforward_layernorm",
    .ffn = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"}};

constexpr DecoderNames kGgufNames = {
    .word = "token_embd",
    .final_norm = "output_norm",
    .output = "output",
    .layer = "blk.",
    .input_norm = "attn_norm",
    .attention = {.query = "attn_q",
                  .key = "attn_k",
                  .value = "attn_v",
                  .query_norm = "attn_q_norm",
                  .key_norm = "attn_k_norm",
                  .output = "attn_output"},
    .plain_ffn_norm = "ffn_norm",
    .attention_out_norm = "post_attention_norm",
    .ffn_norm = "ffn_norm",
    .ffn_out_norm = "post_ffw_norm",
    .ffn = {.gate = "ffn_gate", .up = "ffn_up", .down = "ffn_down"}};

constexpr std::array<std::string_view, 1> kPrefixes = {"model."};

}  // namespace

const DecoderNames& DecoderNamesOf(const ModelConfig& config) {
  return config.naming == TensorNaming::kHuggingFace ? kHuggingFaceNames : kGgufNames;
}

std::string FindDecoderPrefix(const WeightReader& reader, const ModelConfig& config) {
  const DecoderNames& names = DecoderNamesOf(config);
  // Whichever part of the model is there: the table, the norms or a feed-forward layer.
  const std::string layer = std::string(names.layer);
  std::string prefix = reader.FindPrefix(kPrefixes, std::string(names.word) + ".weight");
  if (prefix.empty()) {
    prefix = reader.FindPrefix(kPrefixes, layer + "0." + std::string(names.input_norm) + ".weight");
  }
  for (int64_t index = 0; prefix.empty() && index < config.num_layers; ++index) {
    prefix = reader.FindPrefix(
        kPrefixes, layer + std::to_string(index) + "." + std::string(names.ffn.down) + ".weight");
  }
  return prefix;
}

Result<FfnWeights> ReadDecoderFfn(WeightReader& reader, const ModelConfig& config,
                                  const std::string& prefix) {
  return ReadFfn(reader, prefix, DecoderNamesOf(config).ffn,
                 {.hidden_size = config.hidden_size,
                  .intermediate_size = config.intermediate_size,
                  .up_bias = config.ffn_up_bias,
                  .down_bias = config.ffn_down_bias,
                  .activation = config.activation});
}

float EmbedScale(const ModelConfig& config) {
  return config.scale_embeddings ? std::sqrt(static_cast<float>(config.hidden_size)) : 1.0f;
}

}  // namespace pergola::models
