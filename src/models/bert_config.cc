#include "models/bert_config.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

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

// What the relative positions of DeBERTa are named after: ["c2p", "p2c"] or "c2p|p2c".
std::vector<std::string> SplitNames(const JsonObject& json, std::string_view key) {
  if (const auto list = json.Strings(key)) return *list;
  std::vector<std::string> names(1);
  for (const char letter : json.String(key).value_or("")) {
    if (letter == '|') {
      names.emplace_back();
    } else if (letter != ' ') {
      names.back() += letter;
    }
  }
  return names;
}

// An embedding table narrower than the layers, and a projection between.
Status RefuseFactorisedEmbeddings(const JsonObject& json, const ModelConfig& config) {
  if (json.Int("embedding_size").value_or(config.hidden_size) == config.hidden_size) {
    return OkStatus();
  }
  return UnimplementedError(json.name() +
                            ": 'embedding_size' other than 'hidden_size' is not supported");
}

Status CheckDebertaSettings(const JsonObject& json, const ModelConfig& config) {
  if (json.Int("conv_kernel_size").value_or(0) > 0) {
    return UnimplementedError(json.name() +
                              ": 'conv_kernel_size': a convolution beside the first layer is not "
                              "supported");
  }
  if (!json.Bool("relative_attention").value_or(false)) {
    return UnimplementedError(json.name() + ": 'relative_attention' false is not supported");
  }
  return RefuseFactorisedEmbeddings(json, config);
}

// No table of positions, but a bias by distance; no bias in gate and up.
void SetAlibi(ModelConfig* config) {
  config->architecture = "jina_bert";
  config->ffn_up_bias = false;
  config->positions = PositionKind::kNone;
  config->alibi = true;
  config->max_positions = std::min(config->max_positions, kMaxRotaryPositions);
}

// JinaBERT v2 calls itself "bert" and says the rest by two settings.
Status ReadJinaSettings(const JsonObject& json, ModelConfig* config) {
  const std::string kind = json.String("feed_forward_type").value_or("original");
  if (kind != "geglu" && kind != "reglu") {
    return UnimplementedError(json.name() + ": feed_forward_type '" + kind +
                              "' with position_embedding_type 'alibi' is not supported");
  }
  config->activation = kind == "geglu" ? kernels::Epilogue::kGeluErf : kernels::Epilogue::kRelu;
  SetAlibi(config);
  return OkStatus();
}

Result<DisentangledParameters> ReadDisentangled(const JsonObject& json, int64_t max_positions) {
  DisentangledParameters parameters;
  for (const std::string& kind : SplitNames(json, "pos_att_type")) {
    if (kind == "c2p") parameters.keys = true;
    if (kind == "p2c") parameters.queries = true;
    if (!kind.empty() && kind != "c2p" && kind != "p2c") {
      return UnimplementedError(json.name() + ": pos_att_type '" + kind + "' is not supported");
    }
  }
  const std::vector<std::string> norms = SplitNames(json, "norm_rel_ebd");
  parameters.normed = std::find(norms.begin(), norms.end(), "layer_norm") != norms.end();
  parameters.shared = json.Bool("share_att_key").value_or(false);
  parameters.max_distance = max_positions;
  if (json.Int("max_relative_positions").value_or(-1) >= 1) {
    PERGOLA_ASSIGN_OR_RETURN(parameters.max_distance,
                             json.RequireInt("max_relative_positions", 2, kMaxPositions));
  }
  if (json.Int("position_buckets").value_or(-1) > 0) {
    PERGOLA_ASSIGN_OR_RETURN(
        parameters.buckets,
        json.RequireInt("position_buckets", 4, 2 * (parameters.max_distance - 2)));
  }
  return parameters;
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
  const std::string position_kind = json.String("position_embedding_type").value_or("absolute");
  const bool bert = config.architecture == "bert" || config.architecture == "jina_bert";
  if (bert && position_kind == "alibi") {
    PERGOLA_RETURN_IF_ERROR(ReadJinaSettings(json, &config));
  } else if (config.architecture == "jina_bert" || position_kind != "absolute") {
    return UnimplementedError(json.name() + ": position_embedding_type '" + position_kind +
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
  const bool electra = config.architecture == "electra";
  if (electra) PERGOLA_RETURN_IF_ERROR(RefuseFactorisedEmbeddings(json, config));
  if (!distil && !bert && !electra) {
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

Result<ModelConfig> ReadDebertaConfig(const JsonObject& json) {
  ModelConfig config;
  config.architecture = "deberta-v2";
  PERGOLA_RETURN_IF_ERROR(ReadSizes(json, {}, &config));
  PERGOLA_RETURN_IF_ERROR(CheckDebertaSettings(json, config));
  if (json.Int("attention_head_size")) {
    PERGOLA_ASSIGN_OR_RETURN(config.head_width, json.RequireInt("attention_head_size", 1, 1024));
  }
  PERGOLA_ASSIGN_OR_RETURN(config.activation, ReadActivation(json, "hidden_act", "gelu"));
  config.norm_epsilon = static_cast<float>(json.Number("layer_norm_eps").value_or(1e-7));
  config.num_token_types = 0;
  if (json.Int("type_vocab_size")) {
    PERGOLA_ASSIGN_OR_RETURN(config.num_token_types, json.RequireInt("type_vocab_size", 0, 1024));
  }
  SetAllBiases(true, &config);
  config.positions = json.Bool("position_biased_input").value_or(true) ? PositionKind::kLearned
                                                                       : PositionKind::kNone;
  PERGOLA_ASSIGN_OR_RETURN(config.disentangled, ReadDisentangled(json, config.max_positions));
  const int num_products = 1 + config.disentangled.keys + config.disentangled.queries;
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_width * num_products));
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

Result<ModelConfig> ReadJinaBertGguf(const GgufKeys& keys) {
  for (const char* name :
       {"blk.0.attn_q_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_gate.weight"}) {
    if (keys.source().Find(name) != nullptr) {
      return UnimplementedError("tensor '" + std::string(name) +
                                "' of GGUF architecture 'jina-bert-v2' is not supported");
    }
  }
  PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadBertGguf(keys));
  SetAlibi(&config);
  return config;
}

}  // namespace pergola::models
