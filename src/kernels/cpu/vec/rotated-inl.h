// Rotated rows of bytes, for instruction sets that multiply any unsigned by any signed byte and sum
// fours without overflow (AVX-512 VNNI).
#pragma once

#include <cstdint>

#include "kernels/cpu/rotation.h"

namespace {

using pergola::kernels::cpu::kRotatedBlock;
using pergola::kernels::cpu::kScaledBlock;

constexpr int kRotatedVecs = static_cast<int>(kRotatedBlock) / kLanes;

// One stage within a vector: lane l becomes its sum with lane l ^ kStride, or their difference.
template <int kStride>
inline VecF RotateLanes(VecF value) {
  const VecI lane = Iota();
  const VecF partner = SelectLanes(value, lane ^ kStride);
  const VecF sign = (lane & kStride) != 0 ? Set(-1.0f) : Set(1.0f);
  return MulAdd(value, sign, partner);
}

// The transform of rotation.h: first between vectors, then within them.
inline void RotateVectors(VecF (&values)[kRotatedVecs]) {
#pragma GCC unroll 3
  for (int stride = 1; stride < kRotatedVecs; stride *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kRotatedVecs; ++i) {
      if ((i & stride) != 0) continue;
      const VecF low = values[i], high = values[i + stride];
      values[i] = low + high;
      values[i + stride] = low - high;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRotatedVecs; ++i) {
    values[i] = RotateLanes<8>(RotateLanes<4>(RotateLanes<2>(RotateLanes<1>(values[i]))));
  }
}

// As QuantiseBlocks, of values that are rotated 128 at a time.
void QuantiseRotated(const float* x, int64_t count, int8_t* q,
                     pergola::kernels::cpu::BlockScales scales) {
  for (int64_t begin = 0; begin < count; begin += kRotatedBlock) {
    VecF values[kRotatedVecs];
    for (int i = 0; i < kRotatedVecs; ++i) values[i] = Load(x + begin + i * kLanes);
    RotateVectors(values);
    constexpr int kVecs = static_cast<int>(kScaledBlock) / kLanes;
    for (int first = 0; first < kRotatedVecs; first += kVecs) {
      const int64_t at = begin + first * kLanes;
      QuantiseBlock<kVecs>(values + first, q + at, scales, at / kScaledBlock, -128);
    }
  }
}

// Bytes + 128, four k of a column after the other (PanelFormat::kRotatedBytes).
struct RotatedBytes {
  static constexpr int64_t kDepth = kScaledBlock;
  static constexpr int64_t kWeightBytes = kDepth * kPanelCols;
  static constexpr int64_t kBytes = kWeightBytes + kPanelCols * 4;
  static constexpr int kTemporaries = 2;
  static constexpr int kMaxRows = kBlockTileRows;

  static VecF LoadScale(const std::byte* block, int lane) {
    return Load(reinterpret_cast<const float*>(block + kWeightBytes) + lane);
  }

  template <int kRows, int kVecs>
  static void AddDots(const std::byte* b, int64_t panel_stride, RowPointers<kRows, int8_t>& a,
                      VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 1
    for (int64_t four = 0; four < kDepth / 4; ++four) {
      VecI weights[kVecs];
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        weights[vec] = LoadInt(b + vec / kPanelVecs * panel_stride + vec % kPanelVecs * kLanes * 4);
        KeepInRegister(weights[vec]);
      }
      AddFourOfRows<kRows, kVecs>(a, 0, weights, acc);
      a.Advance(4);
      b += kPanelCols * 4;
    }
  }
};

}  // namespace
