// The opposite of dequantise.h: f32 values as a checkpoint's type stores them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace pergola::kernels {

// True for the types that QuantiseRow writes: F32, F16, BF16, Q8_0, Q4_0.
bool CanQuantise(DType dtype);

// Stores `elements` finite values (whole blocks) at `out` (any alignment), rounded to nearest even;
// beyond the range of F16 to its largest number. Blocks as the reference (ggml) rounds them: Q8_0
// by the largest magnitude / 127, Q4_0 by the largest value / -8.
// Scalar; the same code on every ISA.
void QuantiseRow(DType dtype, const float* values, int64_t elements, std::byte* out);

}  // namespace pergola::kernels
