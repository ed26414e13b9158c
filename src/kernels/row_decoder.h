// Rows of an embedding table as f32, for whoever has no Ops of his own at hand.
//
//   DecodeRow(table, id, embed_scale, row);
//
// Widening is exact and scaling rounds once, so the bits are those of Ops::Gather on every kernel
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace pergola::kernels {

// out = scale * table[row].
//   table  any dtype [V, D]  read;  0 <= row < V is the caller's promise
//   out    f32 [D]           written
// Thread-safe; allocates nothing. F32, F16, BF16 and Q8_0 at the speed of memory, else as
// DequantiseRow.
void DecodeRow(const TensorView& table, int64_t row, float scale, float* out);

// Starts to fetch row `row`, same promise, which is decoded soon: rows of many ids lie anywhere,
// and no prefetcher finds the next one. Two rows ahead is far enough (512 rows of 2560
// halves: 1.3x).
inline constexpr size_t kRowsAhead = 2;
void PrefetchRow(const TensorView& table, int64_t row);

}  // namespace pergola::kernels
