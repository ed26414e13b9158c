#include "models/decoder.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "models/workspace.h"

namespace pergola::models {
namespace {

struct DecoderNames {
  std::string_view word, final_norm, layer;
  std::string_view input_norm;
  AttentionNames attention;
  // Of the norm before the FFN in plain blocks, and of three norms in sandwich blocks.
  std::string_view plain_ffn_norm;
  std::string_view attention_out_norm, ffn_norm, ffn_out_norm;
  FfnNames ffn;
};

constexpr DecoderNames kHuggingFaceNames = {
    .word = "embed_tokens",
    .final_norm = "norm",
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

const DecoderNames& NamesOf(const ModelConfig& config) {
  return config.naming == TensorNaming::kHuggingFace ? kHuggingFaceNames : kGgufNames;
}

// Causal language models keep the encoder's tensors under "model.".
constexpr std::array<std::string_view, 1> kPrefixes = {"model."};

// llama.cpp keeps the divisors of long-context frequencies in a tensor.
constexpr const char* kGgufRopeDivisors = "rope_freqs.weight";

}  // namespace

Result<std::unique_ptr<Encoder>> DecoderEncoder::Load(const ModelConfig& config,
                                                      const formats::TensorSource& source,
                                                      kernels::Ops& ops,
                                                      kernels::LinearOptions options) {
  std::unique_ptr<DecoderEncoder> encoder(new DecoderEncoder(config, ops));
  WeightReader reader(source, ops, options);
  PERGOLA_RETURN_IF_ERROR(encoder->ReadWeights(reader));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

Status DecoderEncoder::ReadWeights(WeightReader& reader) {
  const DecoderNames& names = NamesOf(config_);
  const std::string word = std::string(names.word) + ".weight";
  const std::string prefix = reader.FindPrefix(kPrefixes, word);
  PERGOLA_ASSIGN_OR_RETURN(word_table_,
                           reader.Table(prefix + word, config_.vocab_size, config_.hidden_size));
  const std::string layers = prefix + std::string(names.layer);
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, ReadLayer(reader, layers + std::to_string(index) + "."));
    layers_.push_back(std::move(layer));
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  PERGOLA_ASSIGN_OR_RETURN(
      final_norm_, reader.RmsNorm(prefix + std::string(names.final_norm), config_.hidden_size,
                                  config_.norm_weight_plus_one));
  PERGOLA_RETURN_IF_ERROR(ReadRopeTables(reader));
  owned_bytes_ = reader.owned_bytes() + (rope_.size() + rope_sliding_.size()) * sizeof(float);
  return OkStatus();
}

Status DecoderEncoder::ReadRopeTables(WeightReader& reader) {
  RopeParameters rope = config_.rope;
  if (config_.naming == TensorNaming::kGguf && reader.Has(kGgufRopeDivisors)) {
    PERGOLA_ASSIGN_OR_RETURN(rope.divisors,
                             reader.Vector(kGgufRopeDivisors, config_.head_width / 2));
  }
  rope_ = MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width, rope);
  if (config_.rope_local.base > 0) {
    rope_sliding_ = MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width,
                                  config_.rope_local);
  }
  return OkStatus();
}

Result<DecoderEncoder::Layer> DecoderEncoder::ReadLayer(WeightReader& reader,
                                                        const std::string& prefix) const {
  const DecoderNames& names = NamesOf(config_);
  const int64_t width = config_.hidden_size;
  const auto norm = [&](std::string_view name) {
    return reader.RmsNorm(prefix + std::string(name), width, config_.norm_weight_plus_one);
  };
  AttentionNames attention = names.attention;
  if (!config_.norm_query_key) attention.query_norm = attention.key_norm = "";
  Layer layer;
  PERGOLA_ASSIGN_OR_RETURN(layer.input_norm, norm(names.input_norm));
  PERGOLA_ASSIGN_OR_RETURN(layer.attention,
                           ReadAttention(reader, prefix, attention,
                                         {.hidden_size = width,
                                          .num_heads = config_.num_heads,
                                          .num_kv_heads = config_.num_kv_heads,
                                          .head_width = config_.head_width,
                                          .qkv_bias = config_.qkv_bias,
                                          .output_bias = config_.attention_out_bias,
                                          .interleaved_heads = config_.interleaved_heads,
                                          .norm_weight_plus_one = config_.norm_weight_plus_one}));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn, ReadFfn(reader, prefix, names.ffn,
                                              {.hidden_size = width,
                                               .intermediate_size = config_.intermediate_size,
                                               .up_bias = config_.ffn_up_bias,
                                               .down_bias = config_.ffn_down_bias,
                                               .activation = config_.activation}));
  if (!config_.norm_block_outputs) {
    PERGOLA_ASSIGN_OR_RETURN(layer.ffn_norm, norm(names.plain_ffn_norm));
    return layer;
  }
  PERGOLA_ASSIGN_OR_RETURN(layer.attention_out_norm, norm(names.attention_out_norm));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn_norm, norm(names.ffn_norm));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn_out_norm, norm(names.ffn_out_norm));
  return layer;
}

AttentionSettings DecoderEncoder::Attention(size_t layer) const {
  AttentionSettings settings;
  settings.options.num_heads = config_.num_heads;
  settings.options.num_kv_heads = config_.num_kv_heads;
  settings.options.head_width = config_.head_width;
  settings.options.scale = config_.attention_scale;
  settings.norm_epsilon = config_.norm_epsilon;
  settings.rope = rope_.data();
  if (!config_.layer_is_full.empty() && !config_.layer_is_full[layer]) {
    const auto reach = static_cast<int32_t>(config_.sliding_reach);
    settings.options.mask = {.left = reach, .right = reach};
    if (!rope_sliding_.empty()) settings.rope = rope_sliding_.data();
  }
  if (config_.causal) settings.options.mask.right = 0;
  return settings;
}

void DecoderEncoder::AddOutput(ConstF32Matrix output, const std::vector<float>& norm,
                               F32Matrix hidden) const {
  if (norm.empty()) {
    ops_.Add(output, hidden);
  } else {
    ops_.RmsNormAdd(output, norm.data(), config_.norm_epsilon, hidden);
  }
}

Status DecoderEncoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                               const StageObserver* observer) const {
  const int64_t width = config_.hidden_size;
  const float epsilon = config_.norm_epsilon;
  const float scale = config_.scale_embeddings ? std::sqrt(static_cast<float>(width)) : 1.0f;
  ops_.Gather(word_table_, batch.ids, scale, /*accumulate=*/false, hidden);
  Observe(observer, Stage::kEmbeddings, 0, hidden);
  const F32Matrix normed = workspace.Get(Workspace::kNormed, hidden.rows, width);
  const F32Matrix projected = workspace.Get(Workspace::kProjected, hidden.rows, width);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    const auto layer_number = static_cast<int64_t>(index);
    ops_.RmsNorm(hidden, layer.input_norm.data(), width, epsilon, normed);
    SelfAttention(ops_, layer.attention, Attention(index), batch, workspace, normed,
                  kernels::Epilogue::kNone, projected);
    Observe(observer, Stage::kAttention, layer_number, projected);
    AddOutput(projected, layer.attention_out_norm, hidden);
    ops_.RmsNorm(hidden, layer.ffn_norm.data(), width, epsilon, normed);
    PERGOLA_RETURN_IF_ERROR(ffn.Start(layer_number, normed, projected));
    PERGOLA_RETURN_IF_ERROR(ffn.Finish(layer_number));
    AddOutput(projected, layer.ffn_out_norm, hidden);
    Observe(observer, Stage::kLayer, layer_number, hidden);
  }
  ops_.RmsNorm(hidden, final_norm_.data(), width, epsilon, hidden);
  Observe(observer, Stage::kFinalNorm, 0, hidden);
  return OkStatus();
}

}  // namespace pergola::models
