#include "models/decoder.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/check.h"
#include "models/decoder_names.h"
#include "models/workspace.h"

namespace pergola::models {
namespace {

// llama.cpp keeps the divisors of long-context frequencies in a tensor.
constexpr const char* kGgufRopeDivisors = "rope_freqs.weight";

}  // namespace

Result<std::unique_ptr<Encoder>> DecoderEncoder::Load(const ModelConfig& config,
                                                      const formats::TensorSource& source,
                                                      kernels::Ops& ops,
                                                      kernels::LinearOptions options) {
  std::unique_ptr<DecoderEncoder> encoder(new DecoderEncoder(config, ops));
  WeightReader reader(source, ops, options);
  PERGOLA_RETURN_IF_ERROR(encoder->ReadWeights(reader));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

Status DecoderEncoder::ReadWeights(WeightReader& reader) {
  const DecoderNames& names = DecoderNamesOf(config_);
  const std::string prefix = FindDecoderPrefix(reader, config_);
  if (config_.parts.embeddings) {
    PERGOLA_ASSIGN_OR_RETURN(word_table_, reader.Table(prefix + std::string(names.word) + ".weight",
                                                       config_.vocab_size, config_.hidden_size));
  }
  const std::string layers = prefix + std::string(names.layer);
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, ReadLayer(reader, layers + std::to_string(index) + "."));
    layers_.push_back(std::move(layer));
  }
  for (const Layer& layer : layers_) ffn_layers_.push_back(&layer.ffn);
  if (config_.parts.final_norm) {
    PERGOLA_ASSIGN_OR_RETURN(
        final_norm_, reader.RmsNorm(prefix + std::string(names.final_norm), config_.hidden_size,
                                    config_.norm_weight_plus_one));
  }
  PERGOLA_RETURN_IF_ERROR(ReadRopeTables(reader));
  owned_bytes_ = reader.owned_bytes() + (rope_.size() + rope_sliding_.size()) * sizeof(float);
  return OkStatus();
}

Status DecoderEncoder::ReadRopeTables(WeightReader& reader) {
  RopeParameters rope = config_.rope;
  if (config_.naming == TensorNaming::kGguf && reader.Has(kGgufRopeDivisors)) {
    PERGOLA_ASSIGN_OR_RETURN(rope.divisors,
                             reader.Vector(kGgufRopeDivisors, config_.head_width / 2));
    for (const float divisor : rope.divisors) {
      if (divisor > 1e-3f && divisor < 1e6f) continue;
      return InvalidArgumentError(std::string("tensor '") + kGgufRopeDivisors +
                                  "' divides a frequency by " + std::to_string(divisor));
    }
  }
  rope_ = MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width, rope);
  if (config_.rope_local.base > 0) {
    rope_sliding_ = MakeRopeTable(ops_.threads(), config_.max_positions, config_.head_width,
                                  config_.rope_local);
  }
  return OkStatus();
}

Result<DecoderEncoder::Layer> DecoderEncoder::ReadLayer(WeightReader& reader,
                                                        const std::string& prefix) const {
  const DecoderNames& names = DecoderNamesOf(config_);
  const int64_t width = config_.hidden_size;
  const auto norm = [&](std::string_view name) {
    return reader.RmsNorm(prefix + std::string(name), width, config_.norm_weight_plus_one);
  };
  AttentionNames attention = names.attention;
  if (!config_.norm_query_key) attention.query_norm = attention.key_norm = "";
  Layer layer;
  PERGOLA_ASSIGN_OR_RETURN(layer.input_norm, norm(names.input_norm));
  PERGOLA_ASSIGN_OR_RETURN(layer.attention,
                           ReadAttention(reader, prefix, attention,
                                         {.hidden_size = width,
                                          .num_heads = config_.num_heads,
                                          .num_kv_heads = config_.num_kv_heads,
                                          .head_width = config_.head_width,
                                          .qkv_bias = config_.qkv_bias,
                                          .output_bias = config_.attention_out_bias,
                                          .interleaved_heads = config_.interleaved_heads,
                                          .norm_weight_plus_one = config_.norm_weight_plus_one}));
  if (config_.parts.feed_forward) {
    PERGOLA_ASSIGN_OR_RETURN(layer.ffn, ReadDecoderFfn(reader, config_, prefix));
  }
  if (!config_.norm_block_outputs) {
    PERGOLA_ASSIGN_OR_RETURN(layer.ffn_norm, norm(names.plain_ffn_norm));
    return layer;
  }
  PERGOLA_ASSIGN_OR_RETURN(layer.attention_out_norm, norm(names.attention_out_norm));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn_norm, norm(names.ffn_norm));
  PERGOLA_ASSIGN_OR_RETURN(layer.ffn_out_norm, norm(names.ffn_out_norm));
  return layer;
}

AttentionSettings DecoderEncoder::Attention(size_t layer) const {
  AttentionSettings settings;
  settings.options.num_heads = config_.num_heads;
  settings.options.num_kv_heads = config_.num_kv_heads;
  settings.options.head_width = config_.head_width;
  settings.options.scale = config_.attention_scale;
  settings.norm_epsilon = config_.norm_epsilon;
  settings.rope = rope_.data();
  settings.layer = static_cast<int64_t>(layer);
  if (!config_.layer_is_full.empty() && !config_.layer_is_full[layer]) {
    const auto reach = static_cast<int32_t>(config_.sliding_reach);
    settings.options.mask = {.left = reach, .right = reach};
    if (!rope_sliding_.empty()) settings.rope = rope_sliding_.data();
  }
  if (config_.causal) settings.options.mask.right = 0;
  return settings;
}

void DecoderEncoder::AddOutput(ConstF32Matrix output, const std::vector<float>& norm,
                               F32Matrix hidden) const {
  if (norm.empty()) {
    ops_.Add(output, hidden);
  } else {
    ops_.RmsNormAdd(output, norm.data(), config_.norm_epsilon, hidden);
  }
}

Status DecoderEncoder::CheckBatch(const Batch& batch) const {
  const ModelParts& parts = config_.parts;
  if (!batch.caches.empty()) {
    if (!config_.causal) return InvalidArgumentError("a cache is for a causal model");
    PERGOLA_DCHECK(batch.caches.size() + 1 == batch.cu_seqlens.size());
  }
  const char* missing = !parts.embeddings && batch.embedded.data == nullptr ? "embeddings"
                        : !parts.feed_forward && batch.ffn == nullptr       ? "feed-forward layers"
                        : !parts.final_norm && batch.final_norm             ? "final norm"
                                                                            : nullptr;
  if (missing == nullptr) return OkStatus();
  return FailedPreconditionError(std::string("the model was loaded without its ") + missing);
}

void DecoderEncoder::FirstRows(const Batch& batch, F32Matrix hidden) const {
  if (batch.embedded.data == nullptr) {
    ops_.Gather(word_table_, batch.ids, EmbedScale(config_), /*accumulate=*/false, hidden);
    return;
  }
  for (int64_t row = 0; row < hidden.rows; ++row) {
    std::copy_n(batch.embedded.row(row), hidden.cols, hidden.row(row));
  }
}

Status DecoderEncoder::Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                               const StageObserver* observer) const {
  PERGOLA_RETURN_IF_ERROR(CheckBatch(batch));
  const int64_t width = config_.hidden_size;
  const float epsilon = config_.norm_epsilon;
  FirstRows(batch, hidden);
  Observe(observer, Stage::kEmbeddings, 0, hidden);
  const F32Matrix normed = workspace.Get(Workspace::kNormed, hidden.rows, width);
  const F32Matrix projected = workspace.Get(Workspace::kProjected, hidden.rows, width);
  LocalFfn local(ffn_layers_, ops_, workspace);
  FfnPort& ffn = batch.ffn != nullptr ? *batch.ffn : local;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    const auto layer_number = static_cast<int64_t>(index);
    ops_.RmsNorm(hidden, layer.input_norm.data(), width, epsilon, normed);
    SelfAttention(ops_, layer.attention, Attention(index), batch, workspace, normed,
                  kernels::Epilogue::kNone, projected);
    Observe(observer, Stage::kAttention, layer_number, projected);
    AddOutput(projected, layer.attention_out_norm, hidden);
    ops_.RmsNorm(hidden, layer.ffn_norm.data(), width, epsilon, normed);
    PERGOLA_RETURN_IF_ERROR(ffn.Start(layer_number, normed, projected));
    PERGOLA_RETURN_IF_ERROR(ffn.Finish(layer_number));
    AddOutput(projected, layer.ffn_out_norm, hidden);
    Observe(observer, Stage::kLayer, layer_number, hidden);
  }
  for (size_t seq = 0; seq < batch.caches.size(); ++seq) {
    batch.caches[seq]->Commit(batch.cu_seqlens[seq + 1] - batch.cu_seqlens[seq]);
  }
  if (!batch.final_norm) return OkStatus();
  ops_.RmsNorm(hidden, final_norm_.data(), width, epsilon, hidden);
  Observe(observer, Stage::kFinalNorm, 0, hidden);
  return OkStatus();
}

}  // namespace pergola::models
