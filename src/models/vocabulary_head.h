// From the last residual to a score for every token of the vocabulary: final norm, projection,
// soft-cap.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto head, VocabularyHead::Load(config, source, ops, options));
//   head.Apply(ops, workspace, residual, logits);
//
// The projection is a matrix of its own, or ("tied") the embedding table. Letters: R rows, D model
// width, V vocabulary.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor.h"
#include "kernels/ops.h"
#include "models/config.h"
#include "models/weight_reader.h"
#include "models/workspace.h"

namespace pergola::models {

// Immutable after loading; movable.
class VocabularyHead {
 public:
  // `source` and `ops` must outlive the head. Errors name the tensor.
  static Result<VocabularyHead> Load(const ModelConfig& config, const formats::TensorSource& source,
                                     kernels::Ops& ops, kernels::LinearOptions options);

  bool tied() const { return tied_; }
  int64_t vocab_size() const { return projection_.weight->outputs(); }  // V
  DType dtype() const { return projection_.weight->dtype(); }
  size_t owned_bytes() const { return owned_bytes_; }

  //   residual  f32 [R, D]  read; before the final norm
  //   logits    f32 [R, V]  written
  // Uses the workspace's kNormed. Thread-confined as `ops` is.
  void Apply(kernels::Ops& ops, Workspace& workspace, ConstF32Matrix residual,
             F32Matrix logits) const;

 private:
  std::vector<float> norm_;  // [D]
  float norm_epsilon_ = 0;
  float softcap_ = 0;
  bool tied_ = false;
  LinearLayer projection_;
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
