// A Walsh-Hadamard transform: what int8 weights and their activations are rotated by.
//
// A product keeps its value when both its operands are rotated by the same orthogonal matrix, but a
// rotated block has no outliers: every value becomes a sum of all 128 with signs, so that 8 bits
// lose less (docs/numerics.md). The transform is its own inverse up to the factor 128.
#pragma once

#include <cstdint>

namespace pergola::kernels::cpu {

// Values that are rotated together.
inline constexpr int64_t kRotatedBlock = 128;
// Rotated values that share a scale.
inline constexpr int64_t kScaledBlock = 32;

// values = H values, in place, H [128, 128] of +1 and -1: |H values| is sqrt(128) times |values|.
inline void RotateBlock(float* values) {
  for (int64_t stride = 1; stride < kRotatedBlock; stride *= 2) {
    for (int64_t begin = 0; begin < kRotatedBlock; begin += 2 * stride) {
      for (int64_t i = begin; i < begin + stride; ++i) {
        const float low = values[i], high = values[i + stride];
        values[i] = low + high;
        values[i + stride] = low - high;
      }
    }
  }
}

}  // namespace pergola::kernels::cpu
