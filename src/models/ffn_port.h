// The seam where a feed-forward block leaves the model: computed here, or on another machine.
//
// Start hands over the input, Finish waits for the output, so that a remote hop of one sequence can
// overlap the attention of another. The local block (blocks/local_ffn.h) computes in Start.
//
// Letters: T tokens, D model width.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::models {

// One call in flight per layer and port. Thread-confined.
class FfnPort {
 public:
  virtual ~FfnPort() = default;

  // y = FFN_layer(x), without residual and without norms around it.
  //   x  f32 [T, D]  read; must stay until Finish
  //   y  f32 [T, D]  written by the time Finish returns; no overlap with x
  virtual Status Start(int64_t layer, ConstF32Matrix x, F32Matrix y) = 0;
  // UNAVAILABLE or DEADLINE_EXCEEDED from a remote port; y is then undefined.
  virtual Status Finish(int64_t layer) = 0;
};

}  // namespace pergola::models
