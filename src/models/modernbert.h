// ModernBERT as an encoder: pre-norm layers, rotary positions with two bases, full and sliding
// layers in turn, gated FFN, mostly without biases.
//
//   h = norm(word);  per layer: h += attention(norm(h)) (the first layer: of h itself);
//   h += ffn(norm(h));  at the end: norm(h)
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"
#include "models/config.h"
#include "models/config_reader.h"
#include "models/encoder.h"
#include "models/weight_reader.h"

namespace pergola::models {

// From a config.json of `model_type` modernbert, and from llama.cpp's `modern-bert`.
Result<ModelConfig> ReadModernBertConfig(const JsonObject& json);
Result<ModelConfig> ReadModernBertGguf(const GgufKeys& keys);

class ModernBertEncoder : public Encoder {
 public:
  // `source` and `ops` must outlive the encoder. Errors name the tensor.
  static Result<std::unique_ptr<Encoder>> Load(const ModelConfig& config,
                                               const formats::TensorSource& source,
                                               kernels::Ops& ops, kernels::LinearOptions options);

  int64_t hidden_width() const override { return config_.hidden_size; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_positions; }
  size_t owned_bytes() const override { return owned_bytes_; }
  Status Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                 const StageObserver* observer) const override;

 private:
  struct Layer {
    NormLayer attention_norm;  // no weight: none
    AttentionWeights attention;
    NormLayer ffn_norm;
    FfnWeights ffn;
  };

  ModernBertEncoder(ModelConfig config, kernels::Ops& ops)
      : config_(std::move(config)), ops_(ops) {}
  Status ReadWeights(WeightReader& reader);
  Result<Layer> ReadLayer(WeightReader& reader, const std::string& prefix, bool first) const;
  AttentionSettings Attention(size_t layer) const;
  void Norm(ConstF32Matrix x, const NormLayer& norm, F32Matrix y) const;

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView word_table_;  // [V, D]
  NormLayer embedding_norm_;
  std::vector<Layer> layers_;
  std::vector<const FfnWeights*> ffn_layers_;
  NormLayer final_norm_;
  std::vector<float> rope_;          // [P, W], of full layers
  std::vector<float> rope_sliding_;  // [P, W]
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
