// EmbeddingGemma 2's text tower as an encoder. Gemma's sandwich blocks with heads of values
// normalised too, full layers with wider heads than sliding ones, and a third block per layer that
// mixes in an input of the layer's own, made from the token's embedding; each layer ends in a
// factor.
//
//   e = sqrt(D) * word;  p = norm(project(e)), cut into one part p_l per layer
//   h = e;  per layer l:
//   h += norm(attention(norm(h)));  h += norm(ffn(norm(h)));
//   h += norm(project_l(activation(gate_l(h)) * p_l));  h *= factor_l
//   at the end: project(norm(h)), of width E
//
// The residual stream is kept without the factors: u = h / c, where c is the product of the factors
// so far. Norms read u with an epsilon divided by c^2, blocks add to it with a norm divided by c,
// the gate's weight takes c: the same values, and no pass over h.
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

// From a config.json of `model_type` embedding_gemma2 (its text_config) or embedding_gemma2_text.
Result<ModelConfig> ReadEmbeddingGemma2Config(const JsonObject& json);

// Observers see u, not h.
class EmbeddingGemma2Encoder : public Encoder {
 public:
  // `source` and `ops` must outlive the encoder. Errors name the tensor.
  static Result<std::unique_ptr<Encoder>> Load(const ModelConfig& config,
                                               const formats::TensorSource& source,
                                               kernels::Ops& ops, kernels::LinearOptions options);

  int64_t hidden_width() const override { return config_.output_width; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_positions; }
  size_t owned_bytes() const override { return owned_bytes_; }
  Status Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                 const StageObserver* observer) const override;

 private:
  struct Layer {
    float scale;  // c
    std::vector<float> input_norm;
    AttentionWeights attention;
    std::vector<float> attention_out_norm;  // divided by c
    std::vector<float> ffn_norm;
    FfnWeights ffn;
    std::vector<float> ffn_out_norm;    // divided by c
    LinearLayer input_gate;             // [P, D], times c
    LinearLayer input_projection;       // [D, P]
    std::vector<float> input_out_norm;  // divided by c
  };

  EmbeddingGemma2Encoder(ModelConfig config, kernels::Ops& ops)
      : config_(std::move(config)), ops_(ops) {}
  Status ReadWeights(WeightReader& reader);
  Result<Layer> ReadLayer(WeightReader& reader, const std::string& prefix, size_t index,
                          float scale) const;
  Status ReadBlocks(WeightReader& reader, const std::string& prefix, size_t index,
                    Layer* layer) const;
  Status ReadInputBlock(WeightReader& reader, const std::string& prefix, Layer* layer) const;
  AttentionSettings Attention(size_t layer) const;
  // A norm's epsilon on u.
  float EpsilonAt(float scale) const { return config_.norm_epsilon / (scale * scale); }
  // [T, L P]: what the layers' third blocks mix in. From `embedded` [T, D].
  ConstF32Matrix LayerInputs(ConstF32Matrix embedded, Workspace& workspace) const;
  void MixInput(const Layer& layer, ConstF32Matrix input, Workspace& workspace,
                F32Matrix residual) const;

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView word_table_;           // [V, D]
  LinearLayer inputs_projection_;   // [L P, D]
  std::vector<float> inputs_norm_;  // [P]
  std::vector<Layer> layers_;
  std::vector<const FfnWeights*> ffn_layers_;
  float final_scale_ = 1;
  std::vector<float> final_norm_;
  LinearLayer output_;               // [E, D]
  std::vector<float> rope_full_;     // [P, W of full layers]
  std::vector<float> rope_sliding_;  // [P, W]
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
