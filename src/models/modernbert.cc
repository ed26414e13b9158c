#include "models/modernbert.h"

#include <array>
#include <string>
#include <string_view>

#include "models/modernbert_names.h"
#include "models/workspace.h"

namespace pergola::models {
namespace {

using kernels::Epilogue;

// Checkpoints of a task model ("ModernBertForX") keep the encoder's tensors under "model.".
constexpr std::array<std::string_view, 1> kPrefixes = {"model."};

// The first layer of every `every` is full.
Status SetFullLayers(const std::string& name, int64_t every, ModelConfig* config) {
  if (every < 1)
    return InvalidArgumentError(name + ": every " + std::to_string(every) +
                                "-th layer cannot be full");
  for (int64_t layer = 0; layer < config->num_layers; ++layer) {
    config->layer_is_full.push_back(layer % every == 0);
  }
  return OkStatus();
}

}  // namespace

Result<ModelConfig> ReadModernBertConfig(const JsonObject& json) {
  ModelConfig config;
  config.architecture = "modernbert";
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, {}, &config));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary(json.name(), &config));
  PERGOLA_ASSIGN_OR_RETURN(config.activation, ReadActivation(json, "hidden_activation", "gelu"));
  config.norm_epsilon = static_cast<float>(json.Number("norm_eps").value_or(1e-5));
  config.norm_bias = json.Bool("norm_bias").value_or(false);
  config.qkv_bias = json.Bool("attention_bias").value_or(false);
  config.attention_out_bias = config.qkv_bias;
  config.ffn_up_bias = json.Bool("mlp_bias").value_or(false);
  config.ffn_down_bias = config.ffn_up_bias;
  PERGOLA_ASSIGN_OR_RETURN(
      config.rope,
      ReadLayerTypeRope(json, "full_attention", json.Number("global_rope_theta").value_or(160000)));
  const double local = json.Number("local_rope_theta").value_or(1e4);
  PERGOLA_ASSIGN_OR_RETURN(config.rope_local, ReadLayerTypeRope(json, "sliding_attention", local));
  PERGOLA_RETURN_IF_ERROR(RefuseSettings(json, {"rope_scaling"}));
  if (json.Strings("layer_types")) {
    PERGOLA_RETURN_IF_ERROR(ReadLayerTypes(json, 1, &config));
  } else {
    PERGOLA_RETURN_IF_ERROR(
        SetFullLayers(json.name(), json.Int("global_attn_every_n_layers").value_or(3), &config));
  }
  PERGOLA_ASSIGN_OR_RETURN(const int64_t window,
                           json.RequireInt("local_attention", 1, kMaxPositions));
  config.sliding_reach = window / 2;
  return config;
}

Result<ModelConfig> ReadModernBertGguf(const GgufKeys& keys) {
  ModelConfig config;
  PERGOLA_RETURN_IF_ERROR(ReadGgufSizes(keys, &config));
  config.architecture = "modernbert";
  PERGOLA_RETURN_IF_ERROR(PrepareRotary("GGUF", &config));
  const std::string activation = keys.StringOr("hidden_activation", "gelu");
  if (activation == "silu") {
    config.activation = Epilogue::kSilu;
  } else if (activation != "gelu") {
    return UnimplementedError("GGUF hidden_activation '" + activation + "' is not supported");
  }
  // The converter writes it under the name that RMS norms have.
  config.norm_epsilon = static_cast<float>(keys.FloatOr(
      "attention.layer_norm_rms_epsilon", keys.FloatOr("attention.layer_norm_epsilon", 1e-5)));
  config.norm_bias = keys.source().Find("output_norm.bias") != nullptr;
  config.qkv_bias = keys.source().Find("blk.0.attn_qkv.bias") != nullptr;
  config.attention_out_bias = keys.source().Find("blk.0.attn_output.bias") != nullptr;
  config.ffn_up_bias = keys.source().Find("blk.0.ffn_up.bias") != nullptr;
  config.ffn_down_bias = keys.source().Find("blk.0.ffn_down.bias") != nullptr;
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadGgufRope(keys, 160000));
  PERGOLA_ASSIGN_OR_RETURN(config.rope_local, ReadGgufSlidingRope(keys, 1e4));
  PERGOLA_RETURN_IF_ERROR(
      SetFullLayers("GGUF", keys.IntOr("attention.sliding_window_pattern", 3), &config));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t window,
                           keys.Int("attention.sliding_window", 1, kMaxPositions));
  config.sliding_reach = window / 2;
  return config;
}

Result<std::unique_ptr<Encoder>> ModernBertEncoder::Load(const ModelConfig& config,
                                                         const formats::TensorSource& source,
                                                         kernels::Ops& ops,
                                                         kernels::LinearOptions options) {
  std::unique_ptr<ModernBertEncoder> encoder(new ModernBertEncoder(config, ops));
  WeightReader reader(source, ops, options);
  PERGOLA_RETURN_IF_ERROR(encoder->ReadWeights(reader));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

Status ModernBertEncoder::ReadWeights(WeightReader& reader) {
  const ModernBertNames& names = ModernBertNamesOf(config_);
  const int64_t width = config_.hidden_size;
  const std::string word = std::string(names.word) + ".weight";
  const std::string prefix = reader.FindPrefix(kPrefixes, word);
  PERGOLA_ASSIGN_OR_RETURN(word_table_, reader.Table(prefix + word, config_.vocab_size, width));
  PERGOLA_ASSIGN_OR_RETURN(embedding_norm_, reader.Norm(prefix + std::string(names.embedding_norm),
                                                        width, config_.norm_bias));
  const std::string layers = prefix + std::string(names.layer);
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    PERGOLA_ASSIGN_OR_RETURN(Layer layer,
                             ReadLayer(reader, layers + std::to_string(index) + ".", index == 0));
    layers_.push_back(std::move(layer));
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  PERGOLA_ASSIGN_OR_RETURN(
      final_norm_, reader.Norm(prefix + std::string(names.final_norm), width, config_.norm_bias));
  rope_ = MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width, config_.rope);
  rope_sliding_ =
      MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width, config_.rope_local);
  owned_bytes_ = reader.owned_bytes() + (rope_.size() + rope_sliding_.size()) * sizeof(float);
  return OkStatus();
}

Result<ModernBertEncoder::Layer> ModernBertEncoder::ReadLayer(WeightReader& reader,
                                                              const std::string& prefix,
                                                              bool first) const {
  const ModernBertNames& names = ModernBertNamesOf(config_);
  const int64_t width = config_.hidden_size;
  Layer layer;
  if (!first) {
    PERGOLA_ASSIGN_OR_RETURN(
        layer.attention_norm,
        reader.Norm(prefix + std::string(names.attention_norm), width, config_.norm_bias));
  }
  PERGOLA_ASSIGN_OR_RETURN(layer.attention,
                           ReadAttention(reader, prefix, names.attention,
                                         {.hidden_size = width,
                                          .num_heads = config_.num_heads,
                                          .num_kv_heads = config_.num_kv_heads,
                                          .head_width = config_.head_width,
                                          .qkv_bias = config_.qkv_bias,
                                          .output_bias = config_.attention_out_bias}));
  PERGOLA_ASSIGN_OR_RETURN(
      layer.ffn_norm, reader.Norm(prefix + std::string(names.ffn_norm), width, config_.norm_bias));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn, ReadFfn(reader, prefix, names.ffn,
                                              {.hidden_size = width,
                                               .intermediate_size = config_.intermediate_size,
                                               .up_bias = config_.ffn_up_bias,
                                               .down_bias = config_.ffn_down_bias,
                                               .activation = config_.activation}));
  return layer;
}

AttentionSettings ModernBertEncoder::Attention(size_t layer) const {
  AttentionSettings settings;
  settings.options.num_heads = config_.num_heads;
  settings.options.num_kv_heads = config_.num_kv_heads;
  settings.options.head_width = config_.head_width;
  settings.options.scale = config_.attention_scale;
  settings.rope = rope_.data();
  if (!config_.layer_is_full[layer]) {
    const auto reach = static_cast<int32_t>(config_.sliding_reach);
    settings.options.mask = {.left = reach, .right = reach};
    settings.rope = rope_sliding_.data();
  }
  return settings;
}

void ModernBertEncoder::Norm(ConstF32Matrix x, const NormLayer& norm, F32Matrix y) const {
  ops_.LayerNorm(x, norm.weight.data(), norm.bias_data(), config_.norm_epsilon, y);
}

Status ModernBertEncoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                                  const StageObserver* observer) const {
  PERGOLA_RETURN_IF_ERROR(RefuseDecoderBatch(batch));
  ops_.Gather(word_table_, batch.ids, 1.0f, /*accumulate=*/false, hidden);
  Norm(hidden, embedding_norm_, hidden);
  Observe(observer, Stage::kEmbeddings, 0, hidden);
  const F32Matrix normed = workspace.Get(Workspace::kNormed, hidden.rows, hidden.cols);
  const F32Matrix projected = workspace.Get(Workspace::kProjected, hidden.rows, hidden.cols);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    const auto layer_number = static_cast<int64_t>(index);
    const bool has_norm = !layer.attention_norm.weight.empty();
    if (has_norm) Norm(hidden, layer.attention_norm, normed);
    SelfAttention(ops_, layer.attention, Attention(index), batch, workspace,
                  has_norm ? normed : hidden, Epilogue::kAdd, hidden);
    Norm(hidden, layer.ffn_norm, normed);
    PERGOLA_RETURN_IF_ERROR(ffn.Start(layer_number, normed, projected));
    PERGOLA_RETURN_IF_ERROR(ffn.Finish(layer_number));
    ops_.Add(projected, hidden);
    Observe(observer, Stage::kLayer, layer_number, hidden);
  }
  Norm(hidden, final_norm_, hidden);
  Observe(observer, Stage::kFinalNorm, 0, hidden);
  return OkStatus();
}

}  // namespace pergola::models
