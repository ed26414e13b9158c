#include "models/config.h"

#include <cmath>
#include <limits>
#include <utility>

#include "models/json_object.h"

namespace pergola::models {
namespace {

using kernels::Epilogue;

constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxPositions = 1 << 22;

Result<Epilogue> ParseActivation(const JsonObject& config, std::string_view key) {
  const std::string name = config.String(key).value_or("gelu");
  if (name == "gelu") return Epilogue::kGeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Epilogue::kGeluTanh;
  }
  if (name == "silu" || name == "swish") return Epilogue::kSilu;
  if (name == "relu") return Epilogue::kRelu;
  return UnimplementedError(config.name() + ": activation '" + name + "' is not supported");
}

// Names of the same number in config.json of the BERT family.
struct BertKeys {
  std::string_view hidden_size, num_layers, num_heads, intermediate_size, activation;
};
constexpr BertKeys kBertKeys = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                "intermediate_size", "hidden_act"};
constexpr BertKeys kDistilBertKeys = {"dim", "n_layers", "n_heads", "hidden_dim", "activation"};

Status CheckHeads(const std::string& name, const ModelConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0) {
    return InvalidArgumentError(name + ": " + std::to_string(config.num_heads) +
                                " attention heads are no multiple of " +
                                std::to_string(config.num_kv_heads) + " key/value heads");
  }
  return OkStatus();
}

Result<ModelConfig> ParseBertFamily(const JsonObject& json, std::string architecture) {
  const BertKeys& keys = architecture == "distilbert" ? kDistilBertKeys : kBertKeys;
  ModelConfig config;
  config.architecture = std::move(architecture);
  PERGOLA_ASSIGN_OR_RETURN(config.vocab_size, json.RequireInt("vocab_size", 1, kMaxVocab));
  PERGOLA_ASSIGN_OR_RETURN(config.hidden_size, json.RequireInt(keys.hidden_size, 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config.num_layers, json.RequireInt(keys.num_layers, 1, kMaxLayers));
  PERGOLA_ASSIGN_OR_RETURN(config.num_heads,
                           json.RequireInt(keys.num_heads, 1, config.hidden_size));
  PERGOLA_ASSIGN_OR_RETURN(config.intermediate_size,
                           json.RequireInt(keys.intermediate_size, 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config.max_positions,
                           json.RequireInt("max_position_embeddings", 1, kMaxPositions));
  if (config.hidden_size % config.num_heads != 0) {
    return InvalidArgumentError(json.name() + ": width " + std::to_string(config.hidden_size) +
                                " is no multiple of " + std::to_string(config.num_heads) +
                                " heads");
  }
  config.num_kv_heads = config.num_heads;
  config.head_width = config.hidden_size / config.num_heads;
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_width));
  PERGOLA_ASSIGN_OR_RETURN(config.activation, ParseActivation(json, keys.activation));
  config.norm_epsilon = static_cast<float>(json.Number("layer_norm_eps").value_or(1e-12));
  if (const auto kind = json.String("position_embedding_type"); kind && *kind != "absolute") {
    return UnimplementedError(json.name() + ": position_embedding_type '" + *kind +
                              "' is not supported");
  }
  if (config.architecture == "bert") {
    PERGOLA_ASSIGN_OR_RETURN(config.num_token_types, json.RequireInt("type_vocab_size", 0, 1024));
  } else if (config.architecture == "mpnet") {
    config.position_offset = json.Int("pad_token_id").value_or(1) + 1;
    PERGOLA_ASSIGN_OR_RETURN(config.relative_buckets,
                             json.RequireInt("relative_attention_num_buckets", 2, 4096));
    if (config.position_offset < 0 || config.position_offset >= config.max_positions) {
      return InvalidArgumentError(json.name() + ": 'pad_token_id' + 1 is outside the " +
                                  std::to_string(config.max_positions) + " positions");
    }
    config.max_positions -= config.position_offset;
  }
  return config;
}

// transformers 5 nests the bases by layer kind; before that they were two keys.
void ReadRopeBases(const JsonObject& json, ModelConfig* config) {
  config->rope_base = json.Number("rope_theta").value_or(1e6);
  config->rope_local_base = json.Number("rope_local_base_freq").value_or(1e4);
  const auto parameters = json.Object("rope_parameters");
  if (!parameters) return;
  if (const auto full = parameters->Object("full_attention")) {
    config->rope_base = full->Number("rope_theta").value_or(config->rope_base);
  }
  if (const auto sliding = parameters->Object("sliding_attention")) {
    config->rope_local_base = sliding->Number("rope_theta").value_or(config->rope_local_base);
  }
}

Status ReadLayerTypes(const JsonObject& json, ModelConfig* config) {
  const auto types = json.Strings("layer_types");
  if (!types) {
    const int64_t pattern = json.Int("_sliding_window_pattern")
                                .value_or(json.Int("sliding_window_pattern").value_or(6));
    if (pattern < 1) return InvalidArgumentError(json.name() + ": sliding_window_pattern < 1");
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

Result<ModelConfig> ParseGemma3(const JsonObject& json) {
  ModelConfig config;
  config.architecture = "gemma3_text";
  PERGOLA_ASSIGN_OR_RETURN(config.vocab_size, json.RequireInt("vocab_size", 1, kMaxVocab));
  PERGOLA_ASSIGN_OR_RETURN(config.hidden_size, json.RequireInt("hidden_size", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config.num_layers, json.RequireInt("num_hidden_layers", 1, kMaxLayers));
  PERGOLA_ASSIGN_OR_RETURN(config.num_heads, json.RequireInt("num_attention_heads", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config.num_kv_heads,
                           json.RequireInt("num_key_value_heads", 1, config.num_heads));
  PERGOLA_ASSIGN_OR_RETURN(config.head_width, json.RequireInt("head_dim", 2, 1024));
  PERGOLA_ASSIGN_OR_RETURN(config.intermediate_size,
                           json.RequireInt("intermediate_size", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config.max_positions,
                           json.RequireInt("max_position_embeddings", 1, kMaxPositions));
  PERGOLA_ASSIGN_OR_RETURN(config.sliding_window,
                           json.RequireInt("sliding_window", 1, kMaxPositions));
  PERGOLA_RETURN_IF_ERROR(CheckHeads(json.name(), config));
  if (config.head_width % 2 != 0) {
    return InvalidArgumentError(json.name() + ": head_dim " + std::to_string(config.head_width) +
                                " is odd");
  }
  PERGOLA_ASSIGN_OR_RETURN(config.activation, ParseActivation(json, "hidden_activation"));
  config.norm_epsilon = static_cast<float>(json.Number("rms_norm_eps").value_or(1e-6));
  const double scalar =
      json.Number("query_pre_attn_scalar").value_or(static_cast<double>(config.head_width));
  if (!(scalar > 0)) return InvalidArgumentError(json.name() + ": query_pre_attn_scalar <= 0");
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  config.bidirectional = json.Bool("use_bidirectional_attention").value_or(false);
  config.norm_weight_plus_one = true;
  for (const std::string_view key : {"attn_logit_softcapping", "rope_scaling"}) {
    if (json.Number(key) || json.Object(key)) {
      return UnimplementedError(json.name() + ": '" + std::string(key) + "' is not supported");
    }
  }
  ReadRopeBases(json, &config);
  PERGOLA_RETURN_IF_ERROR(ReadLayerTypes(json, &config));
  return config;
}

// Reads `<architecture>.<key>` of GGUF metadata.
class GgufKeys {
 public:
  GgufKeys(const formats::TensorSource& source, std::string architecture)
      : source_(source), prefix_(std::move(architecture) + ".") {}

  Result<int64_t> Int(std::string_view key, int64_t min, int64_t max) const {
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
  int64_t IntOr(std::string_view key, int64_t fallback) const {
    return source_.GetInt(prefix_ + std::string(key)).value_or(fallback);
  }
  double FloatOr(std::string_view key, double fallback) const {
    return source_.GetFloat(prefix_ + std::string(key)).value_or(fallback);
  }

 private:
  const formats::TensorSource& source_;
  std::string prefix_;
};

Status ReadGgufSizes(const formats::TensorSource& source, const GgufKeys& keys,
                     ModelConfig* config) {
  PERGOLA_ASSIGN_OR_RETURN(const TensorView table, source.Get("token_embd.weight"));
  if (table.shape.rank != 2) {
    return InvalidArgumentError("tensor 'token_embd.weight': shape " + table.shape.ToString() +
                                ", expected two dimensions");
  }
  config->naming = TensorNaming::kGguf;
  config->vocab_size = table.rows();
  PERGOLA_ASSIGN_OR_RETURN(config->hidden_size, keys.Int("embedding_length", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->num_layers, keys.Int("block_count", 1, kMaxLayers));
  PERGOLA_ASSIGN_OR_RETURN(config->num_heads, keys.Int("attention.head_count", 1, kMaxWidth));
  config->num_kv_heads = keys.IntOr("attention.head_count_kv", config->num_heads);
  if (config->num_kv_heads < 1) return InvalidArgumentError("GGUF head_count_kv < 1");
  PERGOLA_ASSIGN_OR_RETURN(config->intermediate_size,
                           keys.Int("feed_forward_length", 1, kMaxWidth));
  PERGOLA_ASSIGN_OR_RETURN(config->max_positions, keys.Int("context_length", 1, kMaxPositions));
  config->head_width = keys.IntOr("attention.key_length", config->hidden_size / config->num_heads);
  if (config->head_width < 1 || config->head_width > 1024) {
    return InvalidArgumentError("GGUF head width " + std::to_string(config->head_width) +
                                " is outside 1 to 1024");
  }
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->head_width));
  return CheckHeads("GGUF", *config);
}

}  // namespace

Result<ModelConfig> ReadHfConfig(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(path));
  const std::string type = json.String("model_type").value_or("");
  if (type == "bert" || type == "distilbert" || type == "mpnet") return ParseBertFamily(json, type);
  if (type == "gemma3_text") return ParseGemma3(json);
  return UnimplementedError(path + ": model_type '" + type +
                            "' is not supported (bert, distilbert, mpnet, gemma3_text are)");
}

Result<ModelConfig> ReadGgufConfig(const formats::TensorSource& source) {
  const std::string architecture(source.GetString("general.architecture").value_or(""));
  ModelConfig config;
  const GgufKeys keys(source, architecture);
  if (architecture == "bert") {
    PERGOLA_RETURN_IF_ERROR(ReadGgufSizes(source, keys, &config));
    config.architecture = "bert";
    config.norm_epsilon = static_cast<float>(keys.FloatOr("attention.layer_norm_epsilon", 1e-12));
    const formats::TensorInfo* types = source.Find("token_types.weight");
    config.num_token_types = types == nullptr ? 0 : types->view.rows();
    return config;
  }
  if (architecture == "gemma-embedding") {
    PERGOLA_RETURN_IF_ERROR(ReadGgufSizes(source, keys, &config));
    config.architecture = "gemma3_text";
    config.activation = kernels::Epilogue::kGeluTanh;
    config.norm_epsilon =
        static_cast<float>(keys.FloatOr("attention.layer_norm_rms_epsilon", 1e-6));
    config.rope_base = keys.FloatOr("rope.freq_base", 1e6);
    config.rope_local_base = keys.FloatOr("rope.freq_base_swa", 1e4);
    config.bidirectional = true;
    PERGOLA_ASSIGN_OR_RETURN(config.sliding_window,
                             keys.Int("attention.sliding_window", 1, kMaxPositions));
    const int64_t pattern = keys.IntOr("attention.sliding_window_pattern", 6);
    if (pattern < 1) return InvalidArgumentError("GGUF sliding_window_pattern < 1");
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      config.layer_is_full.push_back((layer + 1) % pattern == 0);
    }
    if (config.head_width % 2 != 0) return InvalidArgumentError("GGUF head width is odd");
    return config;
  }
  return UnimplementedError("GGUF architecture '" + architecture +
                            "' is not supported (bert, gemma-embedding are)");
}

}  // namespace pergola::models
