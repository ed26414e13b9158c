// Gemma 3's text model as an encoder (EmbeddingGemma): sandwich RMS norms, grouped-query attention
// with normalised queries and keys, rotary positions with two bases, sliding and full layers, gated
// FFN.
//
//   h = sqrt(D) * word;  per layer:
//   h += norm(attention(norm(h)));  h += norm(ffn(norm(h)));  at the end: norm(h)
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "models/blocks/local_ffn.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/weight_reader.h"

namespace pergola::models {

class Gemma3Encoder : public Encoder {
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
    std::vector<float> input_norm;
    LinearLayer query, key, value, output;
    std::vector<float> query_norm, key_norm;  // [W]
    std::vector<float> attention_out_norm;
    std::vector<float> ffn_norm;
    FfnWeights ffn;
    std::vector<float> ffn_out_norm;
  };

  Gemma3Encoder(ModelConfig config, kernels::Ops& ops) : config_(std::move(config)), ops_(ops) {}
  Status ReadWeights(WeightReader& reader);
  Result<Layer> ReadLayer(WeightReader& reader, int64_t index) const;
  Result<std::vector<float>> ReadNorm(WeightReader& reader, const std::string& prefix,
                                      int64_t size) const;
  kernels::AttentionMask Mask(size_t layer) const;
  // projected [T, D] = attention of `normed` [T, D].
  void Attend(size_t index, const Batch& batch, Workspace& workspace, ConstF32Matrix normed,
              F32Matrix projected) const;

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView word_table_;  // [V, D]
  std::vector<Layer> layers_;
  std::vector<const FfnWeights*> ffn_layers_;
  std::vector<float> final_norm_;
  std::vector<float> rope_full_;     // [P, W]
  std::vector<float> rope_sliding_;  // [P, W]
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
