// The BERT family as an encoder: BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, MPNet, DeBERTa
// v2 and v3, Nomic BERT, GTE. Post-norm layers; they differ in positions (learned, MPNet with a
// relative attention bias beside them, DeBERTa with disentangled attention, rotary), in biases and
// in the feed-forward block (plain or gated).
//
//   h = norm(word + position + type);  per layer: h = norm(h + attention(h)); h = norm(h + ffn(h))
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "models/blocks/distance_vectors.h"
#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"
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
    AttentionWeights attention;
    LinearLayer distance_keys, distance_queries;  // no weight: none
    kernels::DistanceVectors distance_vectors;    // shows the two
    NormLayer attention_norm;
    FfnWeights ffn;
    NormLayer output_norm;
  };

  BertEncoder(ModelConfig config, kernels::Ops& ops) : config_(std::move(config)), ops_(ops) {}
  Status ReadWeights(WeightReader& reader);
  Status ReadEmbeddings(WeightReader& reader, const std::string& prefix);
  Result<Layer> ReadLayer(WeightReader& reader, const std::string& prefix) const;
  void Embed(const Batch& batch, F32Matrix hidden) const;
  // The table of positions that layers project, [B, D]; empty: none.
  Result<std::vector<float>> ReadDistanceTable(WeightReader& reader, const std::string& prefix);
  Status ProjectDistanceTable(WeightReader& reader, const std::string& prefix,
                              const std::vector<float>& table, Layer* layer) const;
  AttentionSettings Attention(const Layer& layer) const;

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView word_table_;      // [V, D]
  TensorView position_table_;  // [position_offset + P, D]; no data: none
  TensorView type_table_;      // [types, D]; no data: none
  NormLayer embedding_norm_;
  std::vector<Layer> layers_;
  std::vector<const FfnWeights*> ffn_layers_;
  std::vector<float> rope_;           // [P, W]; empty: none
  std::vector<float> distance_bias_;  // [H, 2 * reach + 1]; empty: none
  int64_t bias_reach_ = 0;
  DistanceRows distance_rows_;  // deberta-v2
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
