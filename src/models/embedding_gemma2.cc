#include "models/embedding_gemma2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/workspace.h"

namespace pergola::models {
namespace {

using kernels::Epilogue;

constexpr std::array<std::string_view, 3> kPrefixes = {"language_model.", "model.language_model.",
                                                       "model."};
constexpr AttentionNames kAttentionNames = {.query = "self_attn.q_proj",
                                            .key = "self_attn.k_proj",
                                            .value = "self_attn.v_proj",
                                            .query_norm = "self_attn.q_norm",
                                            .key_norm = "self_attn.k_norm",
                                            .output = "self_attn.o_proj"};
constexpr FfnNames kFfnNames = {
    .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};

// What the model is served with; its positions reach further than it was evaluated.
constexpr int64_t kServingLimit = 8192;

// Heads of full layers, from the entries of `per_layer_config` or from the two keys that make them.
Status ReadFullHeads(const JsonObject& json, ModelConfig* config) {
  config->full_head_width = json.Int("global_head_dim").value_or(512);
  config->full_num_kv_heads = json.Int("num_global_key_value_heads").value_or(1);
  if (const auto layers = json.Object("per_layer_config")) {
    for (const std::string& key : layers->Keys()) {
      const auto layer = layers->Object(key);
      const size_t index = static_cast<size_t>(std::strtoul(key.c_str(), nullptr, 10));
      if (!layer || index >= config->layer_is_full.size() || !config->layer_is_full[index]) {
        return UnimplementedError(layers->name() + ": entry '" + key + "' is of no full layer");
      }
      PERGOLA_ASSIGN_OR_RETURN(config->full_head_width, layer->RequireInt("head_dim", 2, 1024));
      PERGOLA_ASSIGN_OR_RETURN(config->full_num_kv_heads,
                               layer->RequireInt("num_key_value_heads", 1, config->num_heads));
    }
  }
  if (config->full_head_width < 2 || config->full_head_width > 1024 ||
      config->full_head_width % 2 != 0 || config->full_num_kv_heads < 1 ||
      config->num_heads % config->full_num_kv_heads != 0) {
    return InvalidArgumentError(
        json.name() + ": full layers have " + std::to_string(config->full_num_kv_heads) +
        " key/value heads of width " + std::to_string(config->full_head_width));
  }
  return OkStatus();
}

std::vector<float> Divided(std::vector<float> values, float divisor) {
  for (float& value : values) value /= divisor;
  return values;
}

}  // namespace

Result<ModelConfig> ReadEmbeddingGemma2Config(const JsonObject& root) {
  const auto text = root.Object("text_config");
  const JsonObject& json = text ? *text : root;
  ModelConfig config;
  config.architecture = "embedding_gemma2";
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, {}, &config));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary(json.name(), &config));
  config.max_positions = std::min(config.max_positions, kServingLimit);
  PERGOLA_ASSIGN_OR_RETURN(config.activation,
                           ReadActivation(json, "hidden_activation", "gelu_pytorch_tanh"));
  config.norm_epsilon = static_cast<float>(json.Number("rms_norm_eps").value_or(1e-6));
  config.attention_scale = 1.0f;
  PERGOLA_RETURN_IF_ERROR(RefuseSettings(json, {"attention_bias"}));
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadLayerTypeRope(json, "full_attention", 1e6));
  PERGOLA_ASSIGN_OR_RETURN(config.rope_local, ReadLayerTypeRope(json, "sliding_attention", 1e4));
  PERGOLA_RETURN_IF_ERROR(
      ReadLayerTypes(json, json.Int("sliding_window_pattern").value_or(6), &config));
  config.layer_is_full.back() = true;
  // An inclusive radius here, not a width.
  PERGOLA_ASSIGN_OR_RETURN(config.sliding_reach,
                           json.RequireInt("sliding_window", 1, kMaxPositions));
  PERGOLA_RETURN_IF_ERROR(ReadFullHeads(json, &config));
  PERGOLA_ASSIGN_OR_RETURN(config.layer_input_width,
                           json.RequireInt("hidden_size_per_layer_input", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config.output_width, json.RequireInt("embedding_dim", 1, kMaxWidth));
  return config;
}

Result<std::unique_ptr<Encoder>> EmbeddingGemma2Encoder::Load(const ModelConfig& config,
                                                              const formats::TensorSource& source,
                                                              kernels::Ops& ops,
                                                              kernels::LinearOptions options) {
  std::unique_ptr<EmbeddingGemma2Encoder> encoder(new EmbeddingGemma2Encoder(config, ops));
  WeightReader reader(source, ops, options);
  PERGOLA_RETURN_IF_ERROR(encoder->ReadWeights(reader));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

Status EmbeddingGemma2Encoder::ReadWeights(WeightReader& reader) {
  const int64_t width = config_.hidden_size;
  const std::string prefix = reader.FindPrefix(kPrefixes, "embed_tokens.weight");
  PERGOLA_ASSIGN_OR_RETURN(word_table_,
                           reader.Table(prefix + "embed_tokens.weight", config_.vocab_size, width));
  PERGOLA_ASSIGN_OR_RETURN(
      inputs_projection_,
      reader.Linear(prefix + "ple.per_layer_model_projection",
                    config_.num_layers * config_.layer_input_width, width, false));
  PERGOLA_ASSIGN_OR_RETURN(inputs_norm_, reader.RmsNorm(prefix + "ple.per_layer_projection_norm",
                                                        config_.layer_input_width, false));
  for (size_t index = 0; index < static_cast<size_t>(config_.num_layers); ++index) {
    const std::string layer_prefix = prefix + "layers." + std::to_string(index) + ".";
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, ReadLayer(reader, layer_prefix, index, final_scale_));
    layers_.push_back(std::move(layer));
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> factor,
                             reader.Vector(layer_prefix + "layer_scalar", 1));
    final_scale_ *= factor[0];
    // Its square is a divisor.
    if (!(std::abs(final_scale_) > 1e-12f && std::abs(final_scale_) < 1e12f)) {
      return InvalidArgumentError("tensor '" + layer_prefix + "layer_scalar' brings the scale to " +
                                  std::to_string(final_scale_));
    }
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  PERGOLA_ASSIGN_OR_RETURN(final_norm_, reader.RmsNorm(prefix + "norm", width, false));
  PERGOLA_ASSIGN_OR_RETURN(
      output_, reader.Linear(prefix + "embedding_projection", config_.output_width, width, false));
  rope_full_ =
      MakeRopeTable(ops_.threads(), config_.max_positions, config_.full_head_width, config_.rope);
  rope_sliding_ =
      MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width, config_.rope_local);
  owned_bytes_ = reader.owned_bytes() + (rope_full_.size() + rope_sliding_.size()) * sizeof(float);
  return OkStatus();
}

Result<EmbeddingGemma2Encoder::Layer> EmbeddingGemma2Encoder::ReadLayer(WeightReader& reader,
                                                                        const std::string& prefix,
                                                                        size_t index,
                                                                        float scale) const {
  Layer layer;
  layer.scale = scale;
  PERGOLA_RETURN_IF_ERROR(ReadBlocks(reader, prefix, index, &layer));
  PERGOLA_RETURN_IF_ERROR(ReadInputBlock(reader, prefix, &layer));
  return layer;
}

Status EmbeddingGemma2Encoder::ReadBlocks(WeightReader& reader, const std::string& prefix,
                                          size_t index, Layer* layer) const {
  const int64_t width = config_.hidden_size;
  const bool full = config_.layer_is_full[index];
  const int64_t head_width = full ? config_.full_head_width : config_.head_width;
  PERGOLA_ASSIGN_OR_RETURN(layer->input_norm,
                           reader.RmsNorm(prefix + "input_layernorm", width, false));
  PERGOLA_ASSIGN_OR_RETURN(
      layer->attention,
      ReadAttention(reader, prefix, kAttentionNames,
                    {.hidden_size = width,
                     .num_heads = config_.num_heads,
                     .num_kv_heads = full ? config_.full_num_kv_heads : config_.num_kv_heads,
                     .head_width = head_width}));
  layer->attention.value_norm.assign(static_cast<size_t>(head_width), 1.0f);
  PERGOLA_ASSIGN_OR_RETURN(std::vector<float> attention_out_norm,
                           reader.RmsNorm(prefix + "post_attention_layernorm", width, false));
  layer->attention_out_norm = Divided(std::move(attention_out_norm), layer->scale);
  PERGOLA_ASSIGN_OR_RETURN(layer->ffn_norm,
                           reader.RmsNorm(prefix + "pre_feedforward_layernorm", width, false));
  PERGOLA_ASSIGN_OR_RETURN(layer->ffn, ReadFfn(reader, prefix, kFfnNames,
                                               {.hidden_size = width,
                                                .intermediate_size = config_.intermediate_size,
                                                .activation = config_.activation}));
  PERGOLA_ASSIGN_OR_RETURN(std::vector<float> ffn_out_norm,
                           reader.RmsNorm(prefix + "post_feedforward_layernorm", width, false));
  layer->ffn_out_norm = Divided(std::move(ffn_out_norm), layer->scale);
  return OkStatus();
}

Status EmbeddingGemma2Encoder::ReadInputBlock(WeightReader& reader, const std::string& prefix,
                                              Layer* layer) const {
  const int64_t width = config_.hidden_size;
  const std::string block = prefix + "ple_block.";
  PERGOLA_ASSIGN_OR_RETURN(layer->input_gate,
                           reader.ScaledLinear(block + "per_layer_input_gate",
                                               config_.layer_input_width, width, layer->scale));
  PERGOLA_ASSIGN_OR_RETURN(
      layer->input_projection,
      reader.Linear(block + "per_layer_projection", width, config_.layer_input_width, false));
  PERGOLA_ASSIGN_OR_RETURN(std::vector<float> out_norm,
                           reader.RmsNorm(block + "post_per_layer_input_norm", width, false));
  layer->input_out_norm = Divided(std::move(out_norm), layer->scale);
  return OkStatus();
}

AttentionSettings EmbeddingGemma2Encoder::Attention(size_t layer) const {
  const bool full = config_.layer_is_full[layer];
  AttentionSettings settings;
  settings.options.num_heads = config_.num_heads;
  settings.options.num_kv_heads = full ? config_.full_num_kv_heads : config_.num_kv_heads;
  settings.options.head_width = full ? config_.full_head_width : config_.head_width;
  settings.options.scale = config_.attention_scale;
  settings.norm_epsilon = config_.norm_epsilon;
  settings.rope = full ? rope_full_.data() : rope_sliding_.data();
  if (!full) {
    const auto reach = static_cast<int32_t>(config_.sliding_reach);
    settings.options.mask = {.left = reach, .right = reach};
  }
  return settings;
}

ConstF32Matrix EmbeddingGemma2Encoder::LayerInputs(ConstF32Matrix embedded,
                                                   Workspace& workspace) const {
  const int64_t part = config_.layer_input_width;
  const F32Matrix inputs =
      workspace.Get(Workspace::kLayerInputs, embedded.rows, config_.num_layers * part);
  ops_.Linear(embedded, *inputs_projection_.weight, nullptr, Epilogue::kNone, inputs);
  // The reference multiplies by D^-0.5 before the norm; that is an epsilon times D.
  const float epsilon = config_.norm_epsilon * static_cast<float>(config_.hidden_size);
  ops_.RmsNorm(inputs, inputs_norm_.data(), part, epsilon, inputs);
  return inputs;
}

void EmbeddingGemma2Encoder::MixInput(const Layer& layer, ConstF32Matrix input,
                                      Workspace& workspace, F32Matrix residual) const {
  const F32Matrix gate = workspace.Get(Workspace::kFfnInner, residual.rows, input.cols);
  const F32Matrix projected = workspace.Get(Workspace::kProjected, residual.rows, residual.cols);
  ops_.Linear(residual, *layer.input_gate.weight, nullptr, Epilogue::kNone, gate);
  ops_.GatedActivation(config_.activation, gate, input);
  ops_.Linear(gate, *layer.input_projection.weight, nullptr, Epilogue::kNone, projected);
  ops_.RmsNormAdd(projected, layer.input_out_norm.data(), config_.norm_epsilon, residual);
}

Status EmbeddingGemma2Encoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                                       const StageObserver* observer) const {
  const int64_t width = config_.hidden_size;
  const F32Matrix residual = workspace.Get(Workspace::kResidual, hidden.rows, width);
  const F32Matrix normed = workspace.Get(Workspace::kNormed, hidden.rows, width);
  const F32Matrix projected = workspace.Get(Workspace::kProjected, hidden.rows, width);
  ops_.Gather(word_table_, batch.ids, std::sqrt(static_cast<float>(width)), /*accumulate=*/false,
              residual);
  Observe(observer, Stage::kEmbeddings, 0, residual);
  const ConstF32Matrix inputs = LayerInputs(residual, workspace);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    const auto layer_number = static_cast<int64_t>(index);
    ops_.RmsNorm(residual, layer.input_norm.data(), width, EpsilonAt(layer.scale), normed);
    SelfAttention(ops_, layer.attention, Attention(index), batch, workspace, normed,
                  Epilogue::kNone, projected);
    Observe(observer, Stage::kAttention, layer_number, projected);
    ops_.RmsNormAdd(projected, layer.attention_out_norm.data(), config_.norm_epsilon, residual);
    ops_.RmsNorm(residual, layer.ffn_norm.data(), width, EpsilonAt(layer.scale), normed);
    PERGOLA_RETURN_IF_ERROR(ffn.Start(layer_number, normed, projected));
    PERGOLA_RETURN_IF_ERROR(ffn.Finish(layer_number));
    ops_.RmsNormAdd(projected, layer.ffn_out_norm.data(), config_.norm_epsilon, residual);
    const int64_t part = config_.layer_input_width;
    MixInput(layer, inputs.columns(layer_number * part, part), workspace, residual);
    Observe(observer, Stage::kLayer, layer_number, residual);
  }
  ops_.RmsNorm(residual, final_norm_.data(), width, EpsilonAt(final_scale_), normed);
  ops_.Linear(normed, *output_.weight, nullptr, Epilogue::kNone, hidden);
  Observe(observer, Stage::kFinalNorm, 0, hidden);
  return OkStatus();
}

}  // namespace pergola::models
