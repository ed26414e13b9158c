// What every kernel set asks of a weight before it prepares it.
#pragma once

#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::kernels {

// OK for a matrix [N, K] (or a vector [K], one output) of a type that DequantiseRow widens, K a
// whole number of blocks. UNIMPLEMENTED naming the dtype; INVALID_ARGUMENT naming the shape.
Status CheckLinearWeight(const TensorView& weight);

}  // namespace pergola::kernels
