#include "models/blocks/self_attention.h"

#include <array>

namespace pergola::models {
namespace {

using kernels::Epilogue;

Status ReadProjections(WeightReader& reader, const std::string& prefix, const AttentionNames& names,
                       const AttentionShape& shape, AttentionWeights* weights) {
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const int64_t query_width = shape.num_heads * shape.head_width;
  const int64_t key_width = shape.num_kv_heads * shape.head_width;
  if (!names.qkv.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(
        weights->qkv, reader.Linear(name(names.qkv), query_width + 2 * key_width, shape.hidden_size,
                                    shape.qkv_bias));
    return OkStatus();
  }
  const auto read = [&](std::string_view part, int64_t outputs) {
    if (shape.interleaved_heads) {
      return reader.LinearOfInterleavedHeads(name(part), outputs, shape.hidden_size,
                                             shape.head_width, shape.qkv_bias);
    }
    return reader.Linear(name(part), outputs, shape.hidden_size, shape.qkv_bias);
  };
  {
    const WeightReader::RoleScope query(reader, kernels::LinearRole::kQueryOrOutput);
    PERGOLA_ASSIGN_OR_RETURN(weights->query, read(names.query, query_width));
  }
  PERGOLA_ASSIGN_OR_RETURN(weights->key, read(names.key, key_width));
  PERGOLA_ASSIGN_OR_RETURN(weights->value, reader.Linear(name(names.value), key_width,
                                                         shape.hidden_size, shape.qkv_bias));
  return OkStatus();
}

void NormHeads(kernels::Ops& ops, const std::vector<float>& weight, int64_t head_width,
               float epsilon, F32Matrix x) {
  if (!weight.empty()) ops.RmsNorm(x, weight.data(), head_width, epsilon, x);
}

// Attention where each sequence goes on from its cache.
void AttendToCaches(kernels::Ops& ops, kernels::AttentionOptions options, int64_t layer,
                    const Batch& batch, ConstF32Matrix query, const F32Matrix& key,
                    const F32Matrix& value, F32Matrix attended) {
  for (size_t seq = 0; seq < batch.caches.size(); ++seq) {
    KvCache& cache = *batch.caches[seq];
    const int64_t first = batch.cu_seqlens[seq];
    const int64_t rows = batch.cu_seqlens[seq + 1] - first;
    cache.Stage(layer, key.slice(first, rows), value.slice(first, rows));
    options.past = cache.length();
    const std::array<int32_t, 2> one = {0, static_cast<int32_t>(rows)};
    ops.Attention(query.slice(first, rows), cache.keys(layer), cache.values(layer), {one}, options,
                  attended.slice(first, rows));
  }
}

}  // namespace

Result<AttentionWeights> ReadAttention(WeightReader& reader, const std::string& prefix,
                                       const AttentionNames& names, const AttentionShape& shape) {
  AttentionWeights weights;
  PERGOLA_RETURN_IF_ERROR(ReadProjections(reader, prefix, names, shape, &weights));
  {
    const WeightReader::RoleScope output(reader, kernels::LinearRole::kQueryOrOutput);
    PERGOLA_ASSIGN_OR_RETURN(weights.output,
                             reader.Linear(prefix + std::string(names.output), shape.hidden_size,
                                           shape.num_heads * shape.head_width, shape.output_bias));
  }
  if (!names.query_norm.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(
        weights.query_norm, reader.RmsNorm(prefix + std::string(names.query_norm), shape.head_width,
                                           shape.norm_weight_plus_one));
    PERGOLA_ASSIGN_OR_RETURN(weights.key_norm,
                             reader.RmsNorm(prefix + std::string(names.key_norm), shape.head_width,
                                            shape.norm_weight_plus_one));
  }
  return weights;
}

void SelfAttention(kernels::Ops& ops, const AttentionWeights& weights,
                   const AttentionSettings& settings, const Batch& batch, Workspace& workspace,
                   ConstF32Matrix x, Epilogue epilogue, F32Matrix y) {
  const int64_t head_width = settings.options.head_width;
  const int64_t query_width = settings.options.num_heads * head_width;
  const int64_t key_width = settings.options.num_kv_heads * head_width;
  const F32Matrix qkv = workspace.Get(Workspace::kQkv, x.rows, query_width + 2 * key_width);
  const F32Matrix query = qkv.columns(0, query_width);
  const F32Matrix key = qkv.columns(query_width, key_width);
  const F32Matrix value = qkv.columns(query_width + key_width, key_width);
  if (weights.qkv.weight) {
    ops.Linear(x, *weights.qkv.weight, weights.qkv.bias_data(), Epilogue::kNone, qkv);
  } else {
    const kernels::LinearOutput outputs[] = {weights.query.To(query), weights.key.To(key),
                                             weights.value.To(value)};
    ops.Linears(x, outputs);
  }
  NormHeads(ops, weights.query_norm, head_width, settings.norm_epsilon, query);
  NormHeads(ops, weights.key_norm, head_width, settings.norm_epsilon, key);
  NormHeads(ops, weights.value_norm, head_width, settings.norm_epsilon, value);
  if (settings.rope != nullptr) {
    ops.Rope(query, head_width, settings.rope, batch.positions);
    ops.Rope(key, head_width, settings.rope, batch.positions);
  }
  const F32Matrix attended = workspace.Get(Workspace::kAttention, x.rows, query_width);
  kernels::AttentionOptions options = settings.options;
  // Learned norms of the heads make large scores, whose exponentials bf16 would blur.
  options.round_to_bf16 = weights.output.weight->rotates_rows() && weights.query_norm.empty();
  if (batch.caches.empty()) {
    ops.Attention(query, key, value, batch.ragged(), options, attended);
  } else {
    AttendToCaches(ops, options, settings.layer, batch, query, key, value, attended);
  }
  ops.Linear(attended, *weights.output.weight, weights.output.bias_data(), epilogue, y);
}

}  // namespace pergola::models
