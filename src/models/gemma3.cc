#include "models/gemma3.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "models/blocks/rope_table.h"
#include "models/workspace.h"

namespace pergola::models {
namespace {

using kernels::Epilogue;

struct GemmaNames {
  TensorNaming naming;
  std::string_view word, final_norm, layer;
  std::string_view input_norm, query, key, value, output, query_norm, key_norm, attention_out_norm;
  std::string_view ffn_norm, gate, up, down, ffn_out_norm;
};

constexpr std::array<GemmaNames, 2> kNames = {{
    {TensorNaming::kHuggingFace, "embed_tokens", "norm", "layers.", "input_layernorm",
     "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
     "self_attn.q_norm", "self_attn.k_norm", "post_attention_layernorm",
     "pre_feedforward_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
     "post_feedforward_layernorm"},
    {TensorNaming::kGguf, "token_embd", "output_norm", "blk.", "attn_norm", "attn_q", "attn_k",
     "attn_v", "attn_output", "attn_q_norm", "attn_k_norm", "post_attention_norm", "ffn_norm",
     "ffn_gate", "ffn_up", "ffn_down", "post_ffw_norm"},
}};

const GemmaNames& NamesOf(const ModelConfig& config) {
  return config.naming == TensorNaming::kHuggingFace ? kNames[0] : kNames[1];
}

// Causal language models keep the encoder's tensors under "model.".
std::string FindPrefix(const WeightReader& reader, const GemmaNames& names) {
  return reader.Has("model." + std::string(names.word) + ".weight") ? "model." : "";
}

}  // namespace

Result<std::unique_ptr<Encoder>> Gemma3Encoder::Load(const ModelConfig& config,
                                                     const formats::TensorSource& source,
                                                     kernels::Ops& ops,
                                                     kernels::LinearOptions options) {
  std::unique_ptr<Gemma3Encoder> encoder(new Gemma3Encoder(config, ops));
  WeightReader reader(source, ops, options);
  PERGOLA_RETURN_IF_ERROR(encoder->ReadWeights(reader));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

Status Gemma3Encoder::ReadWeights(WeightReader& reader) {
  const GemmaNames& names = NamesOf(config_);
  const std::string prefix = FindPrefix(reader, names);
  PERGOLA_ASSIGN_OR_RETURN(word_table_, reader.Table(prefix + std::string(names.word) + ".weight",
                                                     config_.vocab_size, config_.hidden_size));
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, ReadLayer(reader, index));
    layers_.push_back(std::move(layer));
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  PERGOLA_ASSIGN_OR_RETURN(
      final_norm_, ReadNorm(reader, prefix + std::string(names.final_norm), config_.hidden_size));
  rope_full_ = MakeRopeTable(config_.max_positions, config_.head_width, config_.rope_base);
  rope_sliding_ = MakeRopeTable(config_.max_positions, config_.head_width, config_.rope_local_base);
  owned_bytes_ = reader.owned_bytes() + (rope_full_.size() + rope_sliding_.size()) * sizeof(float);
  return OkStatus();
}

Result<std::vector<float>> Gemma3Encoder::ReadNorm(WeightReader& reader, const std::string& prefix,
                                                   int64_t size) const {
  PERGOLA_ASSIGN_OR_RETURN(std::vector<float> weight, reader.Vector(prefix + ".weight", size));
  if (config_.norm_weight_plus_one) {
    for (float& value : weight) value += 1.0f;
  }
  return weight;
}

Result<Gemma3Encoder::Layer> Gemma3Encoder::ReadLayer(WeightReader& reader, int64_t index) const {
  const GemmaNames& names = NamesOf(config_);
  const std::string prefix =
      FindPrefix(reader, names) + std::string(names.layer) + std::to_string(index) + ".";
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const int64_t width = config_.hidden_size;
  const int64_t inner = config_.intermediate_size;
  const int64_t query_width = config_.num_heads * config_.head_width;
  const int64_t key_width = config_.num_kv_heads * config_.head_width;
  Layer layer;
  PERGOLA_ASSIGN_OR_RETURN(layer.input_norm, ReadNorm(reader, name(names.input_norm), width));
  PERGOLA_ASSIGN_OR_RETURN(layer.query,
                           reader.Linear(name(names.query), query_width, width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer.key, reader.Linear(name(names.key), key_width, width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer.value, reader.Linear(name(names.value), key_width, width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer.output,
                           reader.Linear(name(names.output), width, query_width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer.query_norm,
                           ReadNorm(reader, name(names.query_norm), config_.head_width));
  PERGOLA_ASSIGN_OR_RETURN(layer.key_norm,
                           ReadNorm(reader, name(names.key_norm), config_.head_width));
  PERGOLA_ASSIGN_OR_RETURN(layer.attention_out_norm,
                           ReadNorm(reader, name(names.attention_out_norm), width));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn_norm, ReadNorm(reader, name(names.ffn_norm), width));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn.gate, reader.Linear(name(names.gate), inner, width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn.up, reader.Linear(name(names.up), inner, width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn.down, reader.Linear(name(names.down), width, inner, false));
  layer.ffn.activation = config_.activation;
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn_out_norm, ReadNorm(reader, name(names.ffn_out_norm), width));
  return layer;
}

kernels::AttentionMask Gemma3Encoder::Mask(size_t layer) const {
  kernels::AttentionMask mask;
  if (!config_.bidirectional) mask.right = 0;
  if (!config_.layer_is_full[layer]) {
    // A bidirectional window of n reaches n / 2 to both sides, inclusive; a causal one holds n
    // keys.
    const auto window = static_cast<int32_t>(config_.sliding_window);
    mask.left = config_.bidirectional ? window / 2 : window - 1;
    if (config_.bidirectional) mask.right = window / 2;
  }
  return mask;
}

void Gemma3Encoder::Attend(size_t index, const Batch& batch, Workspace& workspace,
                           ConstF32Matrix normed, F32Matrix projected) const {
  const Layer& layer = layers_[index];
  const int64_t query_width = config_.num_heads * config_.head_width;
  const int64_t key_width = config_.num_kv_heads * config_.head_width;
  const F32Matrix qkv = workspace.Get(Workspace::kQkv, normed.rows, query_width + 2 * key_width);
  const F32Matrix query = qkv.columns(0, query_width);
  const F32Matrix key = qkv.columns(query_width, key_width);
  const F32Matrix value = qkv.columns(query_width + key_width, key_width);
  ops_.Linear(normed, *layer.query.weight, nullptr, Epilogue::kNone, query);
  ops_.Linear(normed, *layer.key.weight, nullptr, Epilogue::kNone, key);
  ops_.Linear(normed, *layer.value.weight, nullptr, Epilogue::kNone, value);

  const int64_t head_width = config_.head_width;
  const float epsilon = config_.norm_epsilon;
  const std::vector<float>& rope = config_.layer_is_full[index] ? rope_full_ : rope_sliding_;
  ops_.RmsNorm(query, layer.query_norm.data(), head_width, epsilon, query);
  ops_.RmsNorm(key, layer.key_norm.data(), head_width, epsilon, key);
  ops_.Rope(query, head_width, rope.data(), batch.positions);
  ops_.Rope(key, head_width, rope.data(), batch.positions);

  kernels::AttentionOptions options;
  options.num_heads = config_.num_heads;
  options.num_kv_heads = config_.num_kv_heads;
  options.head_width = head_width;
  options.scale = config_.attention_scale;
  options.mask = Mask(index);
  const F32Matrix attended = workspace.Get(Workspace::kAttention, normed.rows, query_width);
  ops_.Attention(query, key, value, batch.ragged(), options, attended);
  ops_.Linear(attended, *layer.output.weight, nullptr, Epilogue::kNone, projected);
}

Status Gemma3Encoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                              const StageObserver* observer) const {
  const int64_t width = config_.hidden_size;
  const float epsilon = config_.norm_epsilon;
  ops_.Gather(word_table_, batch.ids, std::sqrt(static_cast<float>(width)), /*accumulate=*/false,
              hidden);
  Observe(observer, Stage::kEmbeddings, 0, hidden);
  const F32Matrix normed = workspace.Get(Workspace::kNormed, hidden.rows, width);
  const F32Matrix projected = workspace.Get(Workspace::kProjected, hidden.rows, width);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    const auto layer_number = static_cast<int64_t>(index);
    ops_.RmsNorm(hidden, layer.input_norm.data(), width, epsilon, normed);
    Attend(index, batch, workspace, normed, projected);
    Observe(observer, Stage::kAttention, layer_number, projected);
    ops_.RmsNormAdd(projected, layer.attention_out_norm.data(), epsilon, hidden);
    ops_.RmsNorm(hidden, layer.ffn_norm.data(), width, epsilon, normed);
    PERGOLA_RETURN_IF_ERROR(ffn.Start(layer_number, normed, projected));
    PERGOLA_RETURN_IF_ERROR(ffn.Finish(layer_number));
    ops_.RmsNormAdd(projected, layer.ffn_out_norm.data(), epsilon, hidden);
    Observe(observer, Stage::kLayer, layer_number, hidden);
  }
  ops_.RmsNorm(hidden, final_norm_.data(), width, epsilon, hidden);
  Observe(observer, Stage::kFinalNorm, 0, hidden);
  return OkStatus();
}

}  // namespace pergola::models
