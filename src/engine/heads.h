// Heads made ready to run: what turns the encoder's rows into an output.
//
//   PERGOLA_ASSIGN_OR_RETURN(Head head, Head::Load(config, {...}));
//   ConstF32Matrix logits = head.Apply(ops, workspace, pooled_rows);
//
// Which rows a head takes, tokens or pooled ones, its kind says; models/head_config.h has the
// kinds. Letters: R rows, D model width, E outputs of the last layer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/sequence.h"
#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "models/head_config.h"
#include "models/weight_reader.h"
#include "models/workspace.h"
#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::engine {

// What loading a head reads. All of it must outlive the head.
struct HeadContext {
  const formats::TensorSource& source;  // the model's own tensors
  const tokenizers::Tokenizer& tokenizer;
  kernels::Ops& ops;
  kernels::LinearOptions options;
  int64_t hidden_width;  // D
};

// Immutable after loading; movable.
class Head {
 public:
  // NOT_FOUND or INVALID_ARGUMENT naming the tensor, the token, or two widths that do not fit.
  static Result<Head> Load(const models::HeadConfig& config, const HeadContext& context);

  OutputKind kind() const { return kind_; }
  kernels::PoolingKind pooling() const { return pooling_; }
  int64_t width() const { return width_; }  // E
  size_t owned_bytes() const { return owned_bytes_; }
  // Files beside the model's own that hold its layers.
  const std::vector<std::unique_ptr<formats::TensorSource>>& sources() const { return sources_; }

  // The layers applied in turn; without layers the rows themselves.
  //   rows  f32 [R, D]  read
  //   ->    f32 [R, E]  in the workspace's kHeadA or kHeadB, or `rows`: until the next use of these
  ConstF32Matrix Apply(kernels::Ops& ops, models::Workspace& workspace, ConstF32Matrix rows) const;

 private:
  struct Layer {
    models::LinearLayer linear;
    kernels::Epilogue activation = kernels::Epilogue::kNone;
    models::NormLayer norm;  // no weight: none
    float norm_epsilon = 0;
  };

  Result<Layer> LoadLayer(const models::HeadLayerConfig& config, const HeadContext& context,
                          int64_t inputs);

  OutputKind kind_ = OutputKind::kEmbedding;
  kernels::PoolingKind pooling_ = kernels::PoolingKind::kMean;
  int64_t width_ = 0;
  size_t owned_bytes_ = 0;
  std::vector<std::unique_ptr<formats::TensorSource>> sources_;
  std::vector<Layer> layers_;
};

}  // namespace pergola::engine
