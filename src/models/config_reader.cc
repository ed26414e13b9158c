#include "models/config_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pergola::models {
namespace {

using kernels::Epilogue;

constexpr int64_t kMaxHeadWidth = 1024;

Status CheckHeads(const std::string& name, const ModelConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0) {
    return InvalidArgumentError(name + ": " + std::to_string(config.num_heads) +
                                " attention heads are no multiple of " +
                                std::to_string(config.num_kv_heads) + " key/value heads");
  }
  return OkStatus();
}

Status ReadHeads(const JsonObject& json, ModelConfig* config) {
  config->num_kv_heads = config->num_heads;
  if (json.Int("num_key_value_heads")) {
    PERGOLA_ASSIGN_OR_RETURN(config->num_kv_heads,
                             json.RequireInt("num_key_value_heads", 1, config->num_heads));
  }
  PERGOLA_RETURN_IF_ERROR(CheckHeads(json.name(), *config));
  if (json.Int("head_dim")) {
    PERGOLA_ASSIGN_OR_RETURN(config->head_width, json.RequireInt("head_dim", 1, kMaxHeadWidth));
    return OkStatus();
  }
  if (config->hidden_size % config->num_heads != 0) {
    return InvalidArgumentError(json.name() + ": width " + std::to_string(config->hidden_size) +
                                " is no multiple of " + std::to_string(config->num_heads) +
                                " heads");
  }
  config->head_width = config->hidden_size / config->num_heads;
  return OkStatus();
}

// Of frequencies, for longer contexts.
bool IsScalingFactor(double factor) { return factor >= 1 && factor <= 1e6; }

// One object with a base and, perhaps, scaling: `rope_parameters` or `rope_scaling`.
Status ReadRopeObject(const JsonObject& rope, RopeParameters* parameters) {
  parameters->base = rope.Number("rope_theta").value_or(parameters->base);
  const std::string kind =
      rope.String("rope_type").value_or(rope.String("type").value_or("default"));
  if (kind == "default") return OkStatus();
  parameters->factor = rope.Number("factor").value_or(0);
  if (!IsScalingFactor(parameters->factor)) {
    return InvalidArgumentError(rope.name() + ": 'factor' is missing or outside 1 to 1e6");
  }
  if (kind == "linear") {
    parameters->scaling = RopeScaling::kLinear;
    return OkStatus();
  }
  if (kind != "llama3") {
    return UnimplementedError(rope.name() + ": rope type '" + kind + "' is not supported");
  }
  parameters->scaling = RopeScaling::kLlama3;
  parameters->low_frequency_factor = rope.Number("low_freq_factor").value_or(1);
  parameters->high_frequency_factor = rope.Number("high_freq_factor").value_or(4);
  PERGOLA_ASSIGN_OR_RETURN(parameters->original_positions,
                           rope.RequireInt("original_max_position_embeddings", 1, kMaxPositions));
  if (!(parameters->high_frequency_factor > parameters->low_frequency_factor) ||
      !(parameters->low_frequency_factor > 0)) {
    return InvalidArgumentError(rope.name() + ": high_freq_factor is not above low_freq_factor");
  }
  return OkStatus();
}

Status CheckRope(const std::string& name, const RopeParameters& parameters) {
  if (parameters.base > 1 && parameters.base < 1e12) return OkStatus();
  return InvalidArgumentError(name + ": rope base " + std::to_string(parameters.base) +
                              " is outside 1 to 1e12");
}

}  // namespace

Status ReadSizes(const JsonObject& json, const SizeKeys& keys, ModelConfig* config) {
  PERGOLA_ASSIGN_OR_RETURN(config->vocab_size, json.RequireInt("vocab_size", 1, kMaxVocab));
  PERGOLA_ASSIGN_OR_RETURN(config->hidden_size, json.RequireInt(keys.hidden_size, 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->num_layers, json.RequireInt(keys.num_layers, 1, kMaxLayers));
  PERGOLA_ASSIGN_OR_RETURN(config->num_heads, json.RequireInt(keys.num_heads, 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->intermediate_size,
                           json.RequireInt(keys.intermediate_size, 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->max_positions,
                           json.RequireInt(keys.max_positions, 1, kMaxPositions));
  PERGOLA_RETURN_IF_ERROR(ReadHeads(json, config));
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->head_width));
  return OkStatus();
}

Result<Epilogue> ReadActivation(const JsonObject& json, std::string_view key,
                                std::string_view fallback) {
  const std::string name = json.String(key).value_or(std::string(fallback));
  if (name == "gelu") return Epilogue::kGeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Epilogue::kGeluTanh;
  }
  if (name == "silu" || name == "swish") return Epilogue::kSilu;
  if (name == "relu") return Epilogue::kRelu;
  return UnimplementedError(json.name() + ": activation '" + name + "' is not supported");
}

Result<RopeParameters> ReadRope(const JsonObject& json, double default_base) {
  RopeParameters parameters{.base = json.Number("rope_theta").value_or(default_base)};
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (const auto rope = json.Object(key)) {
      PERGOLA_RETURN_IF_ERROR(ReadRopeObject(*rope, &parameters));
    }
  }
  PERGOLA_RETURN_IF_ERROR(CheckRope(json.name(), parameters));
  return parameters;
}

Result<RopeParameters> ReadLayerTypeRope(const JsonObject& json, std::string_view layer_type,
                                         double default_base) {
  RopeParameters parameters{.base = default_base};
  if (const auto all = json.Object("rope_parameters")) {
    if (const auto rope = all->Object(layer_type)) {
      PERGOLA_RETURN_IF_ERROR(ReadRopeObject(*rope, &parameters));
    }
  }
  PERGOLA_RETURN_IF_ERROR(CheckRope(json.name(), parameters));
  return parameters;
}

Status PrepareRotary(const std::string& name, ModelConfig* config) {
  if (config->head_width % 2 != 0) {
    return InvalidArgumentError(name + ": heads of width " + std::to_string(config->head_width) +
                                " cannot be rotated: an odd number");
  }
  config->positions = PositionKind::kRotary;
  config->max_positions = std::min(config->max_positions, kMaxRotaryPositions);
  return OkStatus();
}

Status ReadLayerTypes(const JsonObject& json, int64_t pattern, ModelConfig* config) {
  const auto types = json.Strings("layer_types");
  if (!types) {
    if (pattern < 1) return InvalidArgumentError(json.name() + ": sliding window pattern < 1");
    for (int64_t layer = 0; layer < config->num_layers; ++layer) {
      config->layer_is_full.push_back((layer + 1) % pattern == 0);
    }
    return OkStatus();
  }
  if (static_cast<int64_t>(types->size()) != config->num_layers) {
    return InvalidArgumentError(json.name() + ": " + std::to_string(types->size()) +
                                " layer_types for " + std::to_string(config->num_layers) +
                                " layers");
  }
  for (const std::string& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return UnimplementedError(json.name() + ": layer type '" + type + "' is not supported");
    }
    config->layer_is_full.push_back(type == "full_attention");
  }
  return OkStatus();
}

Status RefuseSettings(const JsonObject& json, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (json.Number(key) || json.Object(key) || json.Bool(key) == true) {
      return UnimplementedError(json.name() + ": '" + std::string(key) + "' is not supported");
    }
  }
  return OkStatus();
}

Result<int64_t> GgufKeys::Int(std::string_view key, int64_t min, int64_t max) const {
  const std::string full = prefix_ + std::string(key);
  const auto value = source_.GetInt(full);
  if (!value) return InvalidArgumentError("GGUF key '" + full + "' is missing or no integer");
  if (*value < min || *value > max) {
    return InvalidArgumentError("GGUF key '" + full + "' is " + std::to_string(*value) +
                                ", allowed is " + std::to_string(min) + " to " +
                                std::to_string(max));
  }
  return *value;
}

int64_t GgufKeys::IntOr(std::string_view key, int64_t fallback) const {
  return source_.GetInt(prefix_ + std::string(key)).value_or(fallback);
}

double GgufKeys::FloatOr(std::string_view key, double fallback) const {
  return source_.GetFloat(prefix_ + std::string(key)).value_or(fallback);
}

bool GgufKeys::BoolOr(std::string_view key, bool fallback) const {
  return source_.GetBool(prefix_ + std::string(key)).value_or(fallback);
}

std::string GgufKeys::StringOr(std::string_view key, std::string_view fallback) const {
  return std::string(source_.GetString(prefix_ + std::string(key)).value_or(fallback));
}

Status ReadGgufSizes(const GgufKeys& keys, ModelConfig* config) {
  if (const formats::TensorInfo* table = keys.source().Find("token_embd.weight")) {
    if (table->view.shape.rank != 2) {
      return InvalidArgumentError("tensor 'token_embd.weight': shape " +
                                  table->view.shape.ToString() + ", expected two dimensions");
    }
    config->vocab_size = table->view.rows();
  } else {  // a slice without the table says it
    PERGOLA_ASSIGN_OR_RETURN(config->vocab_size, keys.Int("vocab_size", 1, kMaxVocab));
  }
  config->naming = TensorNaming::kGguf;
  PERGOLA_ASSIGN_OR_RETURN(config->hidden_size, keys.Int("embedding_length", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->num_layers, keys.Int("block_count", 1, kMaxLayers));
  PERGOLA_ASSIGN_OR_RETURN(config->num_heads, keys.Int("attention.head_count", 1, kMaxWidth));
  config->num_kv_heads = keys.IntOr("attention.head_count_kv", config->num_heads);
  if (config->num_kv_heads < 1) return InvalidArgumentError("GGUF head_count_kv < 1");
  PERGOLA_ASSIGN_OR_RETURN(config->intermediate_size,
                           keys.Int("feed_forward_length", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->max_positions, keys.Int("context_length", 1, kMaxPositions));
  config->head_width = keys.IntOr("attention.key_length", config->hidden_size / config->num_heads);
  if (config->head_width < 1 || config->head_width > kMaxHeadWidth) {
    return InvalidArgumentError("GGUF head width " + std::to_string(config->head_width) +
                                " is outside 1 to " + std::to_string(kMaxHeadWidth));
  }
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->head_width));
  return CheckHeads("GGUF", *config);
}

Result<RopeParameters> ReadGgufRope(const GgufKeys& keys, double default_base) {
  RopeParameters parameters{.base = keys.FloatOr("rope.freq_base", default_base)};
  const std::string kind = keys.StringOr("rope.scaling.type", "none");
  if (kind == "linear") {
    parameters.scaling = RopeScaling::kLinear;
    parameters.factor = keys.FloatOr("rope.scaling.factor", 1);
    if (!IsScalingFactor(parameters.factor)) {
      return InvalidArgumentError("GGUF rope.scaling.factor is outside 1 to 1e6");
    }
  } else if (kind != "none") {
    return UnimplementedError("GGUF rope.scaling.type '" + kind + "' is not supported");
  }
  PERGOLA_RETURN_IF_ERROR(CheckRope("GGUF", parameters));
  return parameters;
}

Result<RopeParameters> ReadGgufSlidingRope(const GgufKeys& keys, double default_base) {
  RopeParameters parameters{.base = keys.FloatOr("rope.freq_base_swa", default_base)};
  PERGOLA_RETURN_IF_ERROR(CheckRope("GGUF", parameters));
  return parameters;
}

}  // namespace pergola::models
