#include "models/bert.h"

#include <array>
#include <string>
#include <string_view>

#include "models/blocks/distance_bias.h"
#include "models/workspace.h"

namespace pergola::models {
namespace {

using kernels::Epilogue;

// Where a family keeps its tensors; layer names follow `layer` + index + ".".
struct BertNames {
  std::string_view architecture;
  TensorNaming naming;
  std::string_view word, position, type, embedding_norm;
  std::string_view layer;
  std::string_view query, key, value, output, attention_norm, up, down, output_norm;
  std::string_view relative_bias;
};

constexpr std::array<BertNames, 4> kNames = {{
    {"bert", TensorNaming::kHuggingFace, "embeddings.word_embeddings",
     "embeddings.position_embeddings", "embeddings.token_type_embeddings", "embeddings.LayerNorm",
     "encoder.layer.", "attention.self.query", "attention.self.key", "attention.self.value",
     "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense",
     "output.LayerNorm", ""},
    {"distilbert", TensorNaming::kHuggingFace, "embeddings.word_embeddings",
     "embeddings.position_embeddings", "", "embeddings.LayerNorm", "transformer.layer.",
     "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm",
     "ffn.lin1", "ffn.lin2", "output_layer_norm", ""},
    {"mpnet", TensorNaming::kHuggingFace, "embeddings.word_embeddings",
     "embeddings.position_embeddings", "", "embeddings.LayerNorm", "encoder.layer.",
     "attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o",
     "attention.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
     "encoder.relative_attention_bias"},
    {"bert", TensorNaming::kGguf, "token_embd", "position_embd", "token_types", "token_embd_norm",
     "blk.", "attn_q", "attn_k", "attn_v", "attn_output", "attn_output_norm", "ffn_up", "ffn_down",
     "layer_output_norm", ""},
}};

Result<const BertNames*> NamesOf(const ModelConfig& config) {
  for (const BertNames& names : kNames) {
    if (names.architecture == config.architecture && names.naming == config.naming) return &names;
  }
  return UnimplementedError("no tensor names for architecture '" + config.architecture + "'");
}

// A checkpoint of a task model ("BertForX") puts the architecture's name before each tensor.
std::string FindPrefix(const WeightReader& reader, const BertNames& names) {
  const std::string prefix = std::string(names.architecture) + ".";
  return reader.Has(prefix + std::string(names.word) + ".weight") ? prefix : "";
}

}  // namespace

Result<std::unique_ptr<Encoder>> BertEncoder::Load(const ModelConfig& config,
                                                   const formats::TensorSource& source,
                                                   kernels::Ops& ops,
                                                   kernels::LinearOptions options) {
  std::unique_ptr<BertEncoder> encoder(new BertEncoder(config, ops));
  WeightReader reader(source, ops, options);
  PERGOLA_RETURN_IF_ERROR(encoder->ReadWeights(reader));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

Status BertEncoder::ReadWeights(WeightReader& reader) {
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* names, NamesOf(config_));
  const std::string prefix = FindPrefix(reader, *names);
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const int64_t width = config_.hidden_size;
  PERGOLA_ASSIGN_OR_RETURN(word_table_,
                           reader.Table(name(names->word) + ".weight", config_.vocab_size, width));
  PERGOLA_ASSIGN_OR_RETURN(position_table_,
                           reader.Table(name(names->position) + ".weight",
                                        config_.position_offset + config_.max_positions, width));
  if (config_.num_token_types > 0) {
    PERGOLA_ASSIGN_OR_RETURN(
        type_table_, reader.Table(name(names->type) + ".weight", config_.num_token_types, width));
  }
  PERGOLA_ASSIGN_OR_RETURN(embedding_norm_, reader.Norm(name(names->embedding_norm), width, true));
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, ReadLayer(reader, index));
    layers_.push_back(std::move(layer));
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  if (config_.relative_buckets > 0) {
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> by_bucket,
                             reader.Values(name(names->relative_bias) + ".weight",
                                           config_.relative_buckets, config_.num_heads));
    distance_bias_ = ExpandDistanceBias(by_bucket, config_.relative_buckets, config_.num_heads);
    bias_reach_ = kMaxBucketDistance;
  }
  owned_bytes_ = reader.owned_bytes();
  return OkStatus();
}

Result<BertEncoder::Layer> BertEncoder::ReadLayer(WeightReader& reader, int64_t index) const {
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* names, NamesOf(config_));
  const std::string prefix =
      FindPrefix(reader, *names) + std::string(names->layer) + std::to_string(index) + ".";
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const int64_t width = config_.hidden_size;
  const int64_t inner = config_.intermediate_size;
  Layer layer;
  PERGOLA_ASSIGN_OR_RETURN(layer.query, reader.Linear(name(names->query), width, width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.key, reader.Linear(name(names->key), width, width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.value, reader.Linear(name(names->value), width, width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.output, reader.Linear(name(names->output), width, width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.attention_norm,
                           reader.Norm(name(names->attention_norm), width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn.up, reader.Linear(name(names->up), inner, width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn.down, reader.Linear(name(names->down), width, inner, true));
  layer.ffn.activation = config_.activation;
  PERGOLA_ASSIGN_OR_RETURN(layer.output_norm, reader.Norm(name(names->output_norm), width, true));
  return layer;
}

void BertEncoder::Embed(const Batch& batch, F32Matrix hidden) const {
  ops_.Gather(word_table_, batch.ids, 1.0f, /*accumulate=*/false, hidden);
  if (type_table_.data != nullptr) {
    ops_.Gather(type_table_, batch.type_ids, 1.0f, /*accumulate=*/true, hidden);
  }
  // Position p reads row position_offset + p: the same table, begun later.
  TensorView positions = position_table_;
  positions.data = position_table_.row(config_.position_offset);
  positions.shape = Shape{config_.max_positions, config_.hidden_size};
  ops_.Gather(positions, batch.positions, 1.0f, /*accumulate=*/true, hidden);
  ops_.LayerNorm(hidden, embedding_norm_.weight.data(), embedding_norm_.bias.data(),
                 config_.norm_epsilon, hidden);
}

void BertEncoder::Attend(const Layer& layer, const Batch& batch, Workspace& workspace,
                         F32Matrix hidden) const {
  const int64_t width = config_.hidden_size;
  const F32Matrix qkv = workspace.Get(Workspace::kQkv, hidden.rows, 3 * width);
  const F32Matrix query = qkv.columns(0, width);
  const F32Matrix key = qkv.columns(width, width);
  const F32Matrix value = qkv.columns(2 * width, width);
  ops_.Linear(hidden, *layer.query.weight, layer.query.bias_data(), Epilogue::kNone, query);
  ops_.Linear(hidden, *layer.key.weight, layer.key.bias_data(), Epilogue::kNone, key);
  ops_.Linear(hidden, *layer.value.weight, layer.value.bias_data(), Epilogue::kNone, value);

  kernels::AttentionOptions options;
  options.num_heads = config_.num_heads;
  options.num_kv_heads = config_.num_kv_heads;
  options.head_width = config_.head_width;
  options.scale = config_.attention_scale;
  if (!distance_bias_.empty()) {
    options.distance_bias = distance_bias_.data();
    options.bias_reach = bias_reach_;
  }
  const F32Matrix attended = workspace.Get(Workspace::kAttention, hidden.rows, width);
  ops_.Attention(query, key, value, batch.ragged(), options, attended);
  ops_.Linear(attended, *layer.output.weight, layer.output.bias_data(), Epilogue::kAdd, hidden);
}

Status BertEncoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                            const StageObserver* observer) const {
  Embed(batch, hidden);
  Observe(observer, Stage::kEmbeddings, 0, hidden);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    Attend(layer, batch, workspace, hidden);
    ops_.LayerNorm(hidden, layer.attention_norm.weight.data(), layer.attention_norm.bias.data(),
                   config_.norm_epsilon, hidden);
    const F32Matrix inner = workspace.Get(Workspace::kProjected, hidden.rows, config_.hidden_size);
    PERGOLA_RETURN_IF_ERROR(ffn.Start(static_cast<int64_t>(index), hidden, inner));
    PERGOLA_RETURN_IF_ERROR(ffn.Finish(static_cast<int64_t>(index)));
    ops_.Add(inner, hidden);
    ops_.LayerNorm(hidden, layer.output_norm.weight.data(), layer.output_norm.bias.data(),
                   config_.norm_epsilon, hidden);
    Observe(observer, Stage::kLayer, static_cast<int64_t>(index), hidden);
  }
  return OkStatus();
}

}  // namespace pergola::models
