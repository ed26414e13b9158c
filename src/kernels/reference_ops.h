// The oracle: every operation of ops.h as plain loops with sums in double, and libm for functions.
//
//   std::unique_ptr<Ops> oracle = MakeReferenceOps(1);
//
// Tests compare the other kernel sets with it; PERGOLA_FORCE_ISA=reference runs whole models on it.
// Weights stay as the checkpoint stores them (LinearWeight keeps a view) and are widened row by
// row; activations are never quantised. Slow by design: nothing here is tuned.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace pergola::kernels {

// `num_threads` >= 1.
std::unique_ptr<Ops> MakeReferenceOps(int num_threads);

}  // namespace pergola::kernels
