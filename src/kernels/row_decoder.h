// Rows of an embedding table as f32, for whoever has no Ops of his own at hand.
//
//   DecodeRow(table, id, embed_scale, row);
//
// Widening is exact and scaling rounds once, so the bits are those of Ops::Gather on every kernel
// set.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace pergola::kernels {

// out = scale * table[row].
//   table  any dtype [V, D]  read;  0 <= row < V is the caller's promise
//   out    f32 [D]           written
// Thread-safe; allocates nothing. F32, F16, BF16 and Q8_0 at the speed of memory, else as
// DequantiseRow.
void DecodeRow(const TensorView& table, int64_t row, float scale, float* out);

}  // namespace pergola::kernels
