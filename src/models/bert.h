// The BERT family as an encoder: BERT, DistilBERT, MPNet. Post-norm layers, learned positions, and
// (MPNet) a relative attention bias shared by all layers.
//
//   h = norm(word + position + type);  per layer: h = norm(h + attention(h)); h = norm(h + ffn(h))
#pragma once

#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "models/blocks/local_ffn.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/weight_reader.h"

namespace pergola::models {

class BertEncoder : public Encoder {
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
    LinearLayer query, key, value, output;
    NormLayer attention_norm;
    FfnWeights ffn;
    NormLayer output_norm;
  };

  BertEncoder(ModelConfig config, kernels::Ops& ops) : config_(std::move(config)), ops_(ops) {}
  Status ReadWeights(WeightReader& reader);
  Result<Layer> ReadLayer(WeightReader& reader, int64_t index) const;
  void Embed(const Batch& batch, F32Matrix hidden) const;
  void Attend(const Layer& layer, const Batch& batch, Workspace& workspace, F32Matrix hidden) const;

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView word_table_;      // [V, D]
  TensorView position_table_;  // [position_offset + P, D]
  TensorView type_table_;      // [types, D]; no data: none
  NormLayer embedding_norm_;
  std::vector<Layer> layers_;
  std::vector<const FfnWeights*> ffn_layers_;
  std::vector<float> distance_bias_;  // [H, 2 * reach + 1]; empty: none
  int64_t bias_reach_ = 0;
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
