#include "models/gguf_export.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "models/bert_names.h"
#include "models/decoder_names.h"
#include "models/modernbert_names.h"

namespace pergola::models {
namespace {

struct NamePair {
  std::string_view from, to;  // without ".weight"; empty: the model has none
  GgufChange change = GgufChange::kNone;
};

// Names of a whole model, without the prefix that a task model has.
struct NameTable {
  std::string_view word;  // of the checkpoint, to find the prefix
  std::vector<NamePair> whole;
  std::string_view layer, gguf_layer;
  std::vector<NamePair> in_layer;
};

struct ExportedArchitecture {
  std::string_view model_type, gguf_name;
};

constexpr std::array kArchitectures = {ExportedArchitecture{"bert", "bert"},
                                       ExportedArchitecture{"roberta", "bert"},
                                       ExportedArchitecture{"xlm-roberta", "bert"},
                                       ExportedArchitecture{"camembert", "bert"},
                                       ExportedArchitecture{"distilbert", "bert"},
                                       ExportedArchitecture{"nomic_bert", "nomic-bert"},
                                       ExportedArchitecture{"jina_bert", "jina-bert-v2"},
                                       ExportedArchitecture{"modernbert", "modern-bert"},
                                       ExportedArchitecture{"gemma3_text", "gemma-embedding"},
                                       ExportedArchitecture{"qwen2", "qwen2"},
                                       ExportedArchitecture{"qwen3", "qwen3"},
                                       ExportedArchitecture{"llama", "llama"},
                                       ExportedArchitecture{"mistral", "llama"},
                                       ExportedArchitecture{"eurobert", "eurobert"}};

// Weights that no pass over the encoder reads: poolers and heads of training.
constexpr std::array<std::string_view, 8> kLeftOut = {
    "pooler.",           "cls.predictions.", "cls.seq_relationship.", "embeddings.position_ids",
    "vocab_layer_norm.", "vocab_transform.", "vocab_projector.",      "lm_head."};

void PairAttention(const AttentionNames& from, const AttentionNames& to, GgufChange heads,
                   GgufChange norms, std::vector<NamePair>* pairs) {
  pairs->push_back({from.qkv, to.qkv});
  pairs->push_back({from.query, to.query, heads});
  pairs->push_back({from.key, to.key, heads});
  pairs->push_back({from.value, to.value});
  pairs->push_back({from.query_norm, to.query_norm, norms});
  pairs->push_back({from.key_norm, to.key_norm, norms});
  pairs->push_back({from.output, to.output});
}

void PairFfn(const FfnNames& from, const FfnNames& to, std::vector<NamePair>* pairs) {
  pairs->push_back({from.gate, to.gate});
  pairs->push_back({from.up, to.up});
  pairs->push_back({from.down, to.down});
  // llama.cpp knows a fused gate by its size alone.
  pairs->push_back({from.gate_and_up, to.gate_and_up});
}

ModelConfig WithGgufNaming(const ModelConfig& config) {
  ModelConfig gguf = config;
  gguf.naming = TensorNaming::kGguf;
  const bool own_names = gguf.architecture == "nomic_bert" || gguf.architecture == "jina_bert";
  if (!own_names) gguf.architecture = "bert";
  return gguf;
}

Result<NameTable> BertTable(const ModelConfig& config) {
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* from, BertNamesOf(config));
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* to, BertNamesOf(WithGgufNaming(config)));
  NameTable table{.word = from->word,
                  .whole = {{from->word, to->word},
                            {from->position, to->position, GgufChange::kSkipRows},
                            {from->type, to->type},
                            {from->embedding_norm, to->embedding_norm}},
                  .layer = from->layer,
                  .gguf_layer = to->layer,
                  .in_layer = {{from->attention_norm, to->attention_norm},
                               {from->output_norm, to->output_norm}}};
  PairAttention(from->attention, to->attention, GgufChange::kNone, GgufChange::kNone,
                &table.in_layer);
  PairFfn(from->ffn, to->ffn, &table.in_layer);
  return table;
}

NameTable ModernBertTable(const ModelConfig& config) {
  const ModernBertNames& from = ModernBertNamesOf(config);
  const ModernBertNames& to = ModernBertNamesOf(WithGgufNaming(config));
  NameTable table{
      .word = from.word,
      .whole = {{from.word, to.word},
                {from.embedding_norm, to.embedding_norm},
                {from.final_norm, to.final_norm}},
      .layer = from.layer,
      .gguf_layer = to.layer,
      .in_layer = {{from.attention_norm, to.attention_norm}, {from.ffn_norm, to.ffn_norm}}};
  PairAttention(from.attention, to.attention, GgufChange::kNone, GgufChange::kNone,
                &table.in_layer);
  PairFfn(from.ffn, to.ffn, &table.in_layer);
  return table;
}

NameTable DecoderTable(const ModelConfig& config) {
  const DecoderNames& from = DecoderNamesOf(config);
  const DecoderNames& to = DecoderNamesOf(WithGgufNaming(config));
  const GgufChange norm = config.norm_weight_plus_one ? GgufChange::kAddOne : GgufChange::kNone;
  const bool interleaved = config.architecture == "llama" || config.architecture == "mistral";
  NameTable table{.word = from.word,
                  .whole = {{from.word, to.word},
                            {from.final_norm, to.final_norm, norm},
                            {from.output, to.output}},
                  .layer = from.layer,
                  .gguf_layer = to.layer,
                  .in_layer = {{from.input_norm, to.input_norm, norm}}};
  if (config.norm_block_outputs) {
    table.in_layer.push_back({from.attention_out_norm, to.attention_out_norm, norm});
    table.in_layer.push_back({from.ffn_norm, to.ffn_norm, norm});
    table.in_layer.push_back({from.ffn_out_norm, to.ffn_out_norm, norm});
  } else {
    table.in_layer.push_back({from.plain_ffn_norm, to.plain_ffn_norm, norm});
  }
  PairAttention(from.attention, to.attention,
                interleaved ? GgufChange::kInterleaveHeads : GgufChange::kNone, norm,
                &table.in_layer);
  PairFfn(from.ffn, to.ffn, &table.in_layer);
  return table;
}

// "layers." with "layers.12.mlp.up_proj": "12."; empty when it is no layer's.
std::string_view LayerOf(std::string_view name, std::string_view layer) {
  if (!name.starts_with(layer)) return {};
  const size_t end = name.find_first_not_of("0123456789", layer.size());
  if (end == layer.size() || end == std::string_view::npos || name[end] != '.') return {};
  return name.substr(layer.size(), end + 1 - layer.size());
}

std::optional<GgufTensor> Rename(const NameTable& table, std::string_view name) {
  const size_t point = name.rfind('.');
  if (point == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = name.substr(point);
  std::string_view stem = name.substr(0, point);
  const std::string_view layer = LayerOf(stem, table.layer);
  if (!layer.empty()) stem.remove_prefix(table.layer.size() + layer.size());
  for (const NamePair& pair : layer.empty() ? table.whole : table.in_layer) {
    if (pair.from.empty() || pair.to.empty() || pair.from != stem) continue;
    std::string renamed = layer.empty() ? "" : std::string(table.gguf_layer) + std::string(layer);
    renamed += pair.to;
    return GgufTensor{.name = renamed += suffix, .view = {}, .change = pair.change};
  }
  return std::nullopt;
}

std::string PrefixOf(const NameTable& table, const formats::TensorSource& source) {
  const std::string word = std::string(table.word) + ".weight";
  for (const formats::TensorInfo& tensor : source.tensors()) {
    if (tensor.name.ends_with("." + word)) {
      return tensor.name.substr(0, tensor.name.size() - word.size());
    }
  }
  return "";
}

Result<std::vector<GgufTensor>> RenameAll(const NameTable& table, const ModelConfig& config,
                                          const formats::TensorSource& source) {
  const std::string prefix = PrefixOf(table, source);
  std::vector<GgufTensor> tensors;
  for (const formats::TensorInfo& info : source.tensors()) {
    const std::string_view full = info.name;
    const std::string_view name = full.starts_with(prefix) ? full.substr(prefix.size()) : full;
    std::optional<GgufTensor> tensor = Rename(table, name);
    if (!tensor) {
      const bool left_out =
          std::any_of(kLeftOut.begin(), kLeftOut.end(),
                      [&](std::string_view start) { return name.starts_with(start); });
      if (left_out) continue;
      return UnimplementedError("tensor '" + info.name + "' of '" + config.architecture +
                                "' has no name in GGUF files");
    }
    // A table that begins with position 0 stays as it is.
    if (tensor->change == GgufChange::kSkipRows && config.position_offset == 0) {
      tensor->change = GgufChange::kNone;
    }
    tensor->view = info.view;
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

// Collects `<architecture>.<key>`.
class Settings {
 public:
  explicit Settings(std::string prefix) : prefix_(std::move(prefix)) {}
  void Int(std::string_view key, int64_t value) { Add(key, static_cast<uint32_t>(value)); }
  void Float(std::string_view key, double value) { Add(key, static_cast<float>(value)); }
  void Bool(std::string_view key, bool value) { Add(key, value); }
  void Text(std::string_view key, std::string value) { Add(key, std::move(value)); }
  std::vector<GgufSetting> Take() { return std::move(settings_); }

 private:
  template <typename T>
  void Add(std::string_view key, T value) {
    settings_.push_back({prefix_ + "." + std::string(key), std::move(value)});
  }
  std::string prefix_;
  std::vector<GgufSetting> settings_;
};

void AddRope(std::string_view key, const RopeParameters& rope, Settings* settings) {
  settings->Float(key, rope.base);
  if (key != "rope.freq_base" || rope.scaling != RopeScaling::kLinear) return;
  settings->Text("rope.scaling.type", "linear");
  settings->Float("rope.scaling.factor", rope.factor);
}

// Every how many layers one is full; 0: all are.
int64_t FullEvery(const ModelConfig& config) {
  const auto& full = config.layer_is_full;
  const bool first = !full.empty() && full[0];
  const auto slides = std::find(full.begin(), full.end(), false);
  if (slides == full.end()) return 0;
  const auto second = std::find(first ? full.begin() + 1 : full.begin(), full.end(), true);
  if (second == full.end()) return config.num_layers + 1;
  return second - full.begin() + (first ? 0 : 1);
}

std::vector<GgufSetting> Describe(const ModelConfig& config, const std::string& name) {
  Settings settings(name);
  const bool decoder =
      config.positions == PositionKind::kRotary && name != "nomic-bert" && name != "modern-bert";
  settings.Int("context_length", config.max_positions);
  settings.Int("embedding_length", config.hidden_size);
  settings.Int("block_count", config.num_layers);
  settings.Int("feed_forward_length", config.intermediate_size);
  settings.Int("attention.head_count", config.num_heads);
  if (decoder) {
    settings.Int("attention.head_count_kv", config.num_kv_heads);
    settings.Int("attention.key_length", config.head_width);
    settings.Int("attention.value_length", config.head_width);
    settings.Float("attention.layer_norm_rms_epsilon", config.norm_epsilon);
    settings.Int("rope.dimension_count", config.head_width);
  } else {
    settings.Float("attention.layer_norm_epsilon", config.norm_epsilon);
  }
  if (!config.causal) settings.Bool("attention.causal", false);
  if (config.positions == PositionKind::kRotary) AddRope("rope.freq_base", config.rope, &settings);
  if (config.final_logit_softcap > 0) {
    settings.Float("final_logit_softcapping", config.final_logit_softcap);
  }
  if (const int64_t every = FullEvery(config); every > 0) {
    settings.Int("attention.sliding_window",
                 config.causal ? config.sliding_reach + 1 : 2 * config.sliding_reach);
    settings.Int("attention.sliding_window_pattern", every);
    AddRope("rope.freq_base_swa", config.rope_local, &settings);
  }
  if (name == "modern-bert") {
    settings.Text("hidden_activation",
                  config.activation == kernels::Epilogue::kSilu ? "silu" : "gelu");
  }
  return settings.Take();
}

// Which layers are full, wherever that is the same.
std::vector<bool> FullLayers(const ModelConfig& config) {
  if (!config.layer_is_full.empty()) return config.layer_is_full;
  return std::vector<bool>(static_cast<size_t>(config.num_layers), true);
}

bool SameRope(const RopeParameters& a, const RopeParameters& b) {
  return static_cast<float>(a.base) == static_cast<float>(b.base) && a.scaling == b.scaling &&
         static_cast<float>(a.factor) == static_cast<float>(b.factor) &&
         (a.scaling != RopeScaling::kLlama3 ||
          (a.low_frequency_factor == b.low_frequency_factor &&
           a.high_frequency_factor == b.high_frequency_factor &&
           a.original_positions == b.original_positions));
}

}  // namespace

Result<GgufModel> DescribeAsGguf(const ModelConfig& config, const formats::TensorSource& source) {
  const auto known = std::find_if(
      kArchitectures.begin(), kArchitectures.end(),
      [&](const ExportedArchitecture& each) { return each.model_type == config.architecture; });
  if (known == kArchitectures.end() || config.naming != TensorNaming::kHuggingFace) {
    return UnimplementedError("a '" + config.architecture + "' model has no names in GGUF files");
  }
  if (config.rope.scaling == RopeScaling::kLlama3) {
    return UnimplementedError("rotary positions scaled as Llama 3 does cannot be written");
  }
  GgufModel model{.architecture = std::string(known->gguf_name), .settings = {}, .tensors = {}};
  if (config.architecture == "gemma3_text" && config.causal) model.architecture = "gemma3";
  NameTable table;
  if (model.architecture == "bert" || model.architecture == "nomic-bert" ||
      model.architecture == "jina-bert-v2") {
    PERGOLA_ASSIGN_OR_RETURN(table, BertTable(config));
  } else {
    table = model.architecture == "modern-bert" ? ModernBertTable(config) : DecoderTable(config);
  }
  PERGOLA_ASSIGN_OR_RETURN(model.tensors, RenameAll(table, config, source));
  model.settings = Describe(config, model.architecture);
  return model;
}

Status CheckSameComputation(const ModelConfig& checkpoint, const ModelConfig& gguf) {
  const ModelConfig& a = checkpoint;
  const ModelConfig& b = gguf;
  const bool slides = FullEvery(a) > 0;
  const bool rotary = a.positions == PositionKind::kRotary;
  const std::pair<bool, const char*> same[] = {
      {a.vocab_size == b.vocab_size, "vocab_size"},
      {a.hidden_size == b.hidden_size, "hidden_size"},
      {a.num_layers == b.num_layers, "num_layers"},
      {a.num_heads == b.num_heads, "num_heads"},
      {a.num_kv_heads == b.num_kv_heads, "num_kv_heads"},
      {a.head_width == b.head_width, "head_width"},
      {a.intermediate_size == b.intermediate_size, "intermediate_size"},
      {a.max_positions == b.max_positions, "max_positions"},
      {a.norm_epsilon == b.norm_epsilon, "norm_epsilon"},
      {a.attention_scale == b.attention_scale, "attention_scale"},
      {a.activation == b.activation, "activation"},
      {a.qkv_bias == b.qkv_bias, "qkv_bias"},
      {a.attention_out_bias == b.attention_out_bias, "attention_out_bias"},
      {a.ffn_up_bias == b.ffn_up_bias, "ffn_up_bias"},
      {a.ffn_down_bias == b.ffn_down_bias, "ffn_down_bias"},
      {a.norm_bias == b.norm_bias, "norm_bias"},
      {a.positions == b.positions, "kind of positions"},
      {!rotary || SameRope(a.rope, b.rope), "rope"},
      {!slides || !rotary || SameRope(a.rope_local, b.rope_local), "rope of sliding layers"},
      {a.relative_buckets == b.relative_buckets, "relative_buckets"},
      {a.alibi == b.alibi, "alibi"},
      {!a.disentangled.keys && !a.disentangled.queries, "disentangled attention"},
      {a.num_token_types == b.num_token_types, "num_token_types"},
      {a.causal == b.causal, "causal"},
      {FullLayers(a) == FullLayers(b), "sliding layers"},
      {!slides || a.sliding_reach == b.sliding_reach, "sliding window"},
      {a.norm_query_key == b.norm_query_key, "norm_query_key"},
      {a.norm_block_outputs == b.norm_block_outputs, "norm_block_outputs"},
      {a.scale_embeddings == b.scale_embeddings, "scale_embeddings"},
      {a.final_logit_softcap == b.final_logit_softcap, "final_logit_softcap"},
      {a.full_head_width == b.full_head_width, "full_head_width"},
      {a.layer_input_width == b.layer_input_width, "layer_input_width"},
      {a.output_width == b.output_width, "output_width"}};
  for (const auto& [equal, setting] : same) {
    if (!equal) {
      return UnimplementedError("a GGUF file of '" + a.architecture +
                                "' cannot say what the checkpoint does: " + setting);
    }
  }
  return OkStatus();
}

}  // namespace pergola::models
