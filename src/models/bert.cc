#include "models/bert.h"

#include <string>
#include <string_view>

#include "models/bert_names.h"
#include "models/blocks/distance_bias.h"
#include "models/workspace.h"

namespace pergola::models {
namespace {

// Where a layer keeps the projections of positions, if not those of its queries and keys.
constexpr std::string_view kDistanceKey = "attention.self.pos_key_proj";
constexpr std::string_view kDistanceQuery = "attention.self.pos_query_proj";

// jina-embeddings-v2-base-code has it.
constexpr std::string_view kQueryNorm = "attention.self.layer_norm_q.weight";

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
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* names, BertNamesOf(config_));
  const std::string prefix =
      reader.FindPrefix(names->task_prefixes, std::string(names->word) + ".weight");
  PERGOLA_RETURN_IF_ERROR(ReadEmbeddings(reader, prefix));
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> distances, ReadDistanceTable(reader, prefix));
  const std::string layers = prefix + std::string(names->layer);
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    const std::string layer_prefix = layers + std::to_string(index) + ".";
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, ReadLayer(reader, layer_prefix));
    PERGOLA_RETURN_IF_ERROR(ProjectDistanceTable(reader, layer_prefix, distances, &layer));
    layers_.push_back(std::move(layer));
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  if (config_.positions == PositionKind::kRotary) {
    rope_ = MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width, config_.rope);
  }
  owned_bytes_ = reader.owned_bytes() + (rope_.size() + distance_bias_.size()) * sizeof(float);
  return OkStatus();
}

Status BertEncoder::ReadEmbeddings(WeightReader& reader, const std::string& prefix) {
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* names, BertNamesOf(config_));
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const int64_t width = config_.hidden_size;
  PERGOLA_ASSIGN_OR_RETURN(word_table_,
                           reader.Table(name(names->word) + ".weight", config_.vocab_size, width));
  if (config_.positions == PositionKind::kLearned) {
    PERGOLA_ASSIGN_OR_RETURN(position_table_,
                             reader.Table(name(names->position) + ".weight",
                                          config_.position_offset + config_.max_positions, width));
  }
  if (config_.num_token_types > 0) {
    PERGOLA_ASSIGN_OR_RETURN(
        type_table_, reader.Table(name(names->type) + ".weight", config_.num_token_types, width));
  }
  PERGOLA_ASSIGN_OR_RETURN(embedding_norm_, reader.Norm(name(names->embedding_norm), width, true));
  if (config_.relative_buckets > 0) {
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> by_bucket,
                             reader.Values(name(names->relative_bias) + ".weight",
                                           config_.relative_buckets, config_.num_heads));
    distance_bias_ = ExpandDistanceBias(by_bucket, config_.relative_buckets, config_.num_heads);
    bias_reach_ = kMaxBucketDistance;
  }
  if (config_.alibi) {
    bias_reach_ = config_.max_positions - 1;
    distance_bias_ = MakeAlibi(config_.num_heads, bias_reach_);
  }
  return OkStatus();
}

Result<BertEncoder::Layer> BertEncoder::ReadLayer(WeightReader& reader,
                                                  const std::string& prefix) const {
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* names, BertNamesOf(config_));
  const int64_t width = config_.hidden_size;
  if (reader.Has(prefix + std::string(kQueryNorm))) {
    return UnimplementedError("tensor '" + prefix + std::string(kQueryNorm) +
                              "': norms of queries and keys are not supported");
  }
  Layer layer;
  PERGOLA_ASSIGN_OR_RETURN(layer.attention,
                           ReadAttention(reader, prefix, names->attention,
                                         {.hidden_size = width,
                                          .num_heads = config_.num_heads,
                                          .num_kv_heads = config_.num_kv_heads,
                                          .head_width = config_.head_width,
                                          .qkv_bias = config_.qkv_bias,
                                          .output_bias = config_.attention_out_bias}));
  PERGOLA_ASSIGN_OR_RETURN(layer.attention_norm,
                           reader.Norm(prefix + std::string(names->attention_norm), width, true));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn, ReadFfn(reader, prefix, names->ffn,
                                              {.hidden_size = width,
                                               .intermediate_size = config_.intermediate_size,
                                               .up_bias = config_.ffn_up_bias,
                                               .down_bias = config_.ffn_down_bias,
                                               .activation = config_.activation}));
  PERGOLA_ASSIGN_OR_RETURN(layer.output_norm,
                           reader.Norm(prefix + std::string(names->output_norm), width, true));
  return layer;
}

Result<std::vector<float>> BertEncoder::ReadDistanceTable(WeightReader& reader,
                                                          const std::string& prefix) {
  const DisentangledParameters& parameters = config_.disentangled;
  if (!parameters.keys && !parameters.queries) return std::vector<float>();
  PERGOLA_ASSIGN_OR_RETURN(const BertNames* names, BertNamesOf(config_));
  const int64_t rows = parameters.table_rows();
  const int64_t width = config_.hidden_size;
  distance_rows_ = FindDistanceRows(parameters, config_.max_positions);
  PERGOLA_ASSIGN_OR_RETURN(
      std::vector<float> table,
      reader.Values(prefix + std::string(names->distance_table) + ".weight", rows, width));
  if (parameters.normed) {
    PERGOLA_ASSIGN_OR_RETURN(const NormLayer norm,
                             reader.Norm(prefix + std::string(names->distance_norm), width, true));
    const F32Matrix view(table.data(), rows, width);
    ops_.LayerNorm(view, norm.weight.data(), norm.bias.data(), config_.norm_epsilon, view);
  }
  return table;
}

Status BertEncoder::ProjectDistanceTable(WeightReader& reader, const std::string& prefix,
                                         const std::vector<float>& table, Layer* layer) const {
  if (table.empty()) return OkStatus();
  const DisentangledParameters& parameters = config_.disentangled;
  const int64_t width = config_.hidden_size;
  const ConstF32Matrix rows(table.data(), parameters.table_rows(), width);
  const auto project = [&](std::string_view own, const LinearLayer& shared) -> Result<LinearLayer> {
    const std::string name = prefix + std::string(own);
    LinearLayer apart;
    if (!parameters.shared) {
      PERGOLA_ASSIGN_OR_RETURN(
          apart, reader.Linear(name, config_.num_heads * config_.head_width, width, true));
    }
    return ProjectDistances(reader, ops_, name, parameters.shared ? shared : apart, rows,
                            distance_rows_.table_rows, config_.num_heads);
  };
  if (parameters.keys) {
    PERGOLA_ASSIGN_OR_RETURN(layer->distance_keys, project(kDistanceKey, layer->attention.key));
  }
  if (parameters.queries) {
    PERGOLA_ASSIGN_OR_RETURN(layer->distance_queries,
                             project(kDistanceQuery, layer->attention.query));
  }
  layer->distance_vectors = {.rows = distance_rows_.by_distance,
                             .keys = layer->distance_keys.weight.get(),
                             .queries = layer->distance_queries.weight.get()};
  return OkStatus();
}

void BertEncoder::Embed(const Batch& batch, F32Matrix hidden) const {
  ops_.Gather(word_table_, batch.ids, 1.0f, /*accumulate=*/false, hidden);
  if (type_table_.data != nullptr) {
    ops_.Gather(type_table_, batch.type_ids, 1.0f, /*accumulate=*/true, hidden);
  }
  if (position_table_.data != nullptr) {
    // Position p reads row position_offset + p: the same table, begun later.
    TensorView positions = position_table_;
    positions.data = position_table_.row(config_.position_offset);
    positions.shape = Shape{config_.max_positions, config_.hidden_size};
    ops_.Gather(positions, batch.positions, 1.0f, /*accumulate=*/true, hidden);
  }
  ops_.LayerNorm(hidden, embedding_norm_.weight.data(), embedding_norm_.bias.data(),
                 config_.norm_epsilon, hidden);
}

AttentionSettings BertEncoder::Attention(const Layer& layer) const {
  AttentionSettings settings;
  settings.options.num_heads = config_.num_heads;
  settings.options.num_kv_heads = config_.num_kv_heads;
  settings.options.head_width = config_.head_width;
  settings.options.scale = config_.attention_scale;
  if (!distance_bias_.empty()) {
    settings.options.distance_bias = distance_bias_.data();
    settings.options.bias_reach = bias_reach_;
  }
  if (!layer.distance_vectors.rows.empty()) {
    settings.options.distance_vectors = &layer.distance_vectors;
  }
  if (!rope_.empty()) settings.rope = rope_.data();
  return settings;
}

Status BertEncoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                            const StageObserver* observer) const {
  PERGOLA_RETURN_IF_ERROR(RefuseDecoderBatch(batch));
  Embed(batch, hidden);
  Observe(observer, Stage::kEmbeddings, 0, hidden);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    SelfAttention(ops_, layer.attention, Attention(layer), batch, workspace, hidden,
                  kernels::Epilogue::kAdd, hidden);
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
