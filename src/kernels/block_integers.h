// The integers that a block of a quantised type holds, and what they stand for:
//
//   BlockIntegers block;
//   DecodeBlock(DType::kQ6_K, bytes, &block);
//   // value i is block.step[i / block.group] * block.value[i], plus block.offset[i / block.group]
//
// One decoder for whoever wants f32 values (dequantise.h) and whoever multiplies the integers
// themselves (cpu/panel_weight.h). The layouts are described in docs/formats/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace pergola::kernels {

inline constexpr int kMaxBlockElements = 256;

// Of one block; what lies beyond the block's values and groups is left as it was.
struct BlockIntegers {
  int group;        // values that share a step: 16 or 32
  bool has_offset;  // else nothing is added (to add 0 would turn -0 into 0)
  int8_t value[kMaxBlockElements];
  float step[kMaxBlockElements / 16];
  float offset[kMaxBlockElements / 16];
};

// Steps and offsets are computed in f32 in the order that the reference (ggml) uses. `dtype` is a
// quantised type, `block` of any alignment has its BlockBytes(). Scalar; the same code on every
// ISA.
void DecodeBlock(DType dtype, const std::byte* block, BlockIntegers* out);

// IEEE half, stored little-endian, to single: exact; a NaN keeps its payload and becomes quiet, as
// F16C does it.
float LoadF16(const std::byte* source);

}  // namespace pergola::kernels
