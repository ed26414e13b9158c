// Decoder-style blocks as an encoder: Gemma 3, Qwen 2 and 3, Llama, Mistral, EuroBERT. Pre-norm
// with RMS norms, grouped-query attention with rotary positions, gated FFN; causal or not, layers
// full or sliding. Gemma and Qwen 3 also normalise the heads of queries and keys, Gemma the outputs
// of both blocks.
//
//   h = word (Gemma: times sqrt(D));  per layer:
//   h += attention(norm(h));  h += ffn(norm(h));  at the end: norm(h)
//   Gemma:  h += norm(attention(norm(h)));  h += norm(ffn(norm(h)))
//
// With config.parts a model is read in part: what is missing then comes with the batch.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/weight_reader.h"

namespace pergola::models {

class DecoderEncoder : public Encoder {
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
    AttentionWeights attention;
    std::vector<float> attention_out_norm;  // empty: none
    std::vector<float> ffn_norm;
    FfnWeights ffn;
    std::vector<float> ffn_out_norm;  // empty: none
  };

  DecoderEncoder(ModelConfig config, kernels::Ops& ops) : config_(std::move(config)), ops_(ops) {}
  Status ReadWeights(WeightReader& reader);
  Status ReadRopeTables(WeightReader& reader);
  Result<Layer> ReadLayer(WeightReader& reader, const std::string& prefix) const;
  AttentionSettings Attention(size_t layer) const;
  // FAILED_PRECONDITION naming a part that was not read and does not come with the batch.
  Status CheckBatch(const Batch& batch) const;
  void FirstRows(const Batch& batch, F32Matrix hidden) const;
  // hidden += block's output, through its norm where there is one.
  void AddOutput(ConstF32Matrix output, const std::vector<float>& norm, F32Matrix hidden) const;

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView word_table_;  // [V, D]
  std::vector<Layer> layers_;
  std::vector<const FfnWeights*> ffn_layers_;
  std::vector<float> final_norm_;
  std::vector<float> rope_;          // [P, W], of full layers
  std::vector<float> rope_sliding_;  // [P, W]; empty: as the full layers
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
