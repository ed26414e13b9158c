#include "models/bert_config.h"

#include <string>

namespace pergola::models {
namespace {

// Positions begin behind the padding token's row.
Status ReservePositions(const JsonObject& json, ModelConfig* config) {
  config->position_offset = json.Int("pad_token_id").value_or(1) + 1;
  if (config->position_offset < 0 || config->position_offset >= config->max_positions) {
    return InvalidArgumentError(json.name() + ": 'pad_token_id' + 1 is outside the " +
                                std::to_string(config->max_positions) + " positions");
  }
  config->max_positions -= config->position_offset;
  return OkStatus();
}

void SetAllBiases(bool value, ModelConfig* config) {
  config->qkv_bias = value;
  config->attention_out_bias = value;
  config->ffn_up_bias = value;
  config->ffn_down_bias = value;
}

// GTE's own scaling "ntk" has two parts: the base times the factor, all frequencies divided by
// factor^(2/W).
Result<RopeParameters> ReadGteRope(const JsonObject& json, int64_t head_width) {
  constexpr double kDefaultBase = 160000;
  const auto scaling = json.Object("rope_scaling");
  if (!scaling || scaling->String("type") != "ntk") return ReadRope(json, kDefaultBase);
  const double factor = scaling->Number("factor").value_or(0);
  if (!(factor >= 1) || scaling->Number("mixed_b")) {
    return UnimplementedError(scaling->name() + ": a factor below 1 or 'mixed_b'");
  }
  RopeParameters rope{.base = json.Number("rope_theta").value_or(kDefaultBase) * factor};
  rope.scaling = RopeScaling::kLinear;
  rope.factor = PortableExp(PortableLog(factor) * 2 / static_cast<double>(head_width));
  return rope;
}

}  // namespace

Result<ModelConfig> ReadBertConfig(const JsonObject& json) {
  ModelConfig config;
  config.architecture = json.String("model_type").value_or("bert");
  const bool distil = config.architecture == "distilbert";
  const SizeKeys keys = distil ? SizeKeys{.hidden_size = "dim",
                                          .num_layers = "n_layers",
                                          .num_heads = "n_heads",
                                          .intermediate_size = "hidden_dim"}
                               : SizeKeys{};
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, keys, &config));
  PERGOLA_ASSIGN_OR_RETURN(config.activation,
                           ReadActivation(json, distil ? "activation" : "hidden_act", "gelu"));
  config.norm_epsilon = static_cast<float>(json.Number("layer_norm_eps").value_or(1e-12));
  SetAllBiases(true, &config);
  if (const auto kind = json.String("position_embedding_type"); kind && *kind != "absolute") {
    return UnimplementedError(json.name() + ": position_embedding_type '" + *kind +
                              "' is not supported");
  }
  const bool mpnet = config.architecture == "mpnet";
  if (!distil && !mpnet) {
    PERGOLA_ASSIGN_OR_RETURN(config.num_token_types, json.RequireInt("type_vocab_size", 0, 1024));
  }
  if (mpnet) {
    PERGOLA_ASSIGN_OR_RETURN(config.relative_buckets,
                             json.RequireInt("relative_attention_num_buckets", 4, 4096));
  }
  if (!distil && config.architecture != "bert") {
    PERGOLA_RETURN_IF_ERROR(ReservePositions(json, &config));
  }
  return config;
}

Result<ModelConfig> ReadNomicBertConfig(const JsonObject& json) {
  ModelConfig config;
  config.architecture = "nomic_bert";
  const bool original = json.Int("n_embd").has_value();
  const SizeKeys keys = original ? SizeKeys{.hidden_size = "n_embd",
                                            .num_layers = "n_layer",
                                            .num_heads = "n_head",
                                            .intermediate_size = "n_inner",
                                            .max_positions = "n_positions"}
                                 : SizeKeys{};
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, keys, &config));
  PERGOLA_RETURN_IF_ERROR(RefuseSettings(
      json, {"prenorm", "causal", "use_rms_norm", "rotary_emb_interleaved", "parallel_block",
             "rotary_emb_scale_base", "rotary_scaling_factor", "num_experts"}));
  if (json.Number("rotary_emb_fraction").value_or(1) != 1) {
    return UnimplementedError(json.name() +
                              ": 'rotary_emb_fraction' other than 1 is not supported");
  }
  if (original) {
    // "swiglu" is the gate; the function on it is SiLU.
    const std::string gate = json.String("activation_function").value_or("swiglu");
    if (gate != "swiglu") {
      return UnimplementedError(json.name() + ": activation '" + gate + "' is not supported");
    }
    config.activation = kernels::Epilogue::kSilu;
  } else {
    PERGOLA_ASSIGN_OR_RETURN(config.activation, ReadActivation(json, "hidden_act", "silu"));
  }
  config.norm_epsilon = static_cast<float>(
      json.Number("layer_norm_epsilon").value_or(json.Number("layer_norm_eps").value_or(1e-12)));
  PERGOLA_ASSIGN_OR_RETURN(config.num_token_types, json.RequireInt("type_vocab_size", 0, 1024));
  config.qkv_bias = json.Bool("qkv_proj_bias").value_or(false);
  config.attention_out_bias = config.qkv_bias;
  config.ffn_up_bias = json.Bool("mlp_fc1_bias").value_or(false);
  config.ffn_down_bias = json.Bool("mlp_fc2_bias").value_or(false);
  PERGOLA_ASSIGN_OR_RETURN(config.rope,
                           ReadRope(json, json.Number("rotary_emb_base").value_or(1000)));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary(json.name(), &config));
  return config;
}

Result<ModelConfig> ReadGteConfig(const JsonObject& json) {
  ModelConfig config;
  config.architecture = "new";
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, {}, &config));
  PERGOLA_ASSIGN_OR_RETURN(config.activation, ReadActivation(json, "hidden_act", "gelu"));
  config.norm_epsilon = static_cast<float>(json.Number("layer_norm_eps").value_or(1e-12));
  PERGOLA_ASSIGN_OR_RETURN(config.num_token_types, json.RequireInt("type_vocab_size", 0, 1024));
  PERGOLA_RETURN_IF_ERROR(RefuseSettings(json, {"logn_attention_scale", "logn_attention_clip1"}));
  if (const std::string norm = json.String("layer_norm_type").value_or("layer_norm");
      norm != "layer_norm") {
    return UnimplementedError(json.name() + ": layer_norm_type '" + norm + "' is not supported");
  }
  config.qkv_bias = true;
  config.attention_out_bias = true;
  config.ffn_down_bias = true;
  PERGOLA_RETURN_IF_ERROR(PrepareRotary(json.name(), &config));
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadGteRope(json, config.head_width));
  return config;
}

Result<ModelConfig> ReadBertGguf(const GgufKeys& keys) {
  ModelConfig config;
  PERGOLA_RETURN_IF_ERROR(ReadGgufSizes(keys, &config));
  config.architecture = "bert";
  config.norm_epsilon = static_cast<float>(keys.FloatOr("attention.layer_norm_epsilon", 1e-12));
  const formats::TensorInfo* types = keys.source().Find("token_types.weight");
  config.num_token_types = types == nullptr ? 0 : types->view.rows();
  SetAllBiases(true, &config);
  return config;
}

Result<ModelConfig> ReadNomicBertGguf(const GgufKeys& keys) {
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadBertGguf(keys));
  config.architecture = "nomic_bert";
  config.activation = kernels::Epilogue::kSilu;
  SetAllBiases(false, &config);
  PERGOLA_ASSIGN_OR_RETURN(config.rope, ReadGgufRope(keys, 1000));
  PERGOLA_RETURN_IF_ERROR(PrepareRotary("GGUF", &config));
  return config;
}

}  // namespace pergola::models
