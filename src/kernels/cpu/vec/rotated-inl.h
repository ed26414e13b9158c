// Rotated rows of bytes, for instruction sets that multiply any unsigned by any signed byte and sum
// fours without overflow (kHasWideByteDot).
#pragma once

#include <cstdint>

#include "kernels/cpu/rotation.h"

namespace {

using pergola::kernels::cpu::kRotatedBlock;
using pergola::kernels::cpu::kScaledBlock;

static_assert(kScaledBlock == kBlock, "they are ByteFours");
static_assert(!(kHasWideByteDot && kHalvedByteDots), "QuantiseFourBlocks keeps starts as they are");

constexpr int kRotatedVecs = static_cast<int>(kRotatedBlock) / kLanes;

// The stages within a vector, from kStride on: lane l becomes its sum with lane l ^ kStride, or
// their difference.
template <int kStride>
inline VecF RotateLanes(VecF value) {
  if constexpr (kStride < kLanes) {
    const VecF sign = (Iota() & kStride) != 0 ? Set(-1.0f) : Set(1.0f);
    return RotateLanes<2 * kStride>(MulAdd(value, sign, SwapLanes<kStride>(value)));
  } else {
    return value;
  }
}

// The transform of rotation.h: first between vectors, then within them.
inline void RotateVectors(VecF (&values)[kRotatedVecs]) {
#pragma GCC unroll 5
  for (int stride = 1; stride < kRotatedVecs; stride *= 2) {
#pragma GCC unroll 32
    for (int i = 0; i < kRotatedVecs; ++i) {
      if ((i & stride) != 0) continue;
      const VecF low = values[i], high = values[i + stride];
      values[i] = low + high;
      values[i + stride] = low - high;
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kRotatedVecs; ++i) values[i] = RotateLanes<1>(values[i]);
}

constexpr int kScaledVecs = static_cast<int>(kScaledBlock) / kLanes;
constexpr int kRotatedScales = kRotatedVecs / kScaledVecs;

#if defined(PERGOLA_SIXTEEN_LANES)
static_assert(kLanes == 16 && kScaledVecs == 2 && kRotatedScales == 4);

// Lanes 4b to 4b + 3: all lanes of by_block[b], combined. Four reductions at the
// price of one.
template <class Vec, class Combine>
inline Vec ReduceFour(const Vec (&by_block)[kRotatedScales], Combine combine) {
  const auto halves = [&](Vec a, Vec b) {
    return combine(
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                31));
  };
  const Vec first = halves(by_block[0], by_block[1]), last = halves(by_block[2], by_block[3]);
  Vec all = combine(__builtin_shufflevector(first, last, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19,
                                            24, 25, 26, 27),
                    __builtin_shufflevector(first, last, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23,
                                            28, 29, 30, 31));
  all = combine(
      all, __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return combine(
      all, __builtin_shufflevector(all, all, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}

// As QuantiseBlock, of the four blocks of what is rotated at a time.
inline void QuantiseFourBlocks(const VecF (&values)[kRotatedVecs], int8_t* q, float* scales,
                               int32_t* starts) {
  typedef int8_t Narrow __attribute__((vector_size(kLanes)));
  VecF largest[kRotatedScales];
#pragma GCC unroll 4
  for (int block = 0; block < kRotatedScales; ++block) {
    largest[block] = Max(Abs(values[2 * block]), Abs(values[2 * block + 1]));
  }
  const VecF magnitude = ReduceFour(largest, [](VecF a, VecF b) { return Max(a, b); });
  const VecI zero = magnitude < kLeastMagnitude;
  const VecF scale = zero ? VecF{} : magnitude / 127.0f;
  const VecF inverse = zero ? VecF{} : 127.0f / magnitude;
  const VecF magic = Set(12582912.0f);
  VecI total[kRotatedScales];
#pragma GCC unroll 4
  for (int block = 0; block < kRotatedScales; ++block) {
    const VecF of_block = SelectLanes(inverse, SetInt(4 * block));
    total[block] = VecI{};
#pragma GCC unroll 2
    for (int vec = kScaledVecs * block; vec < kScaledVecs * (block + 1); ++vec) {
      const VecI rounded = Bits(values[vec] * of_block + magic) - Bits(magic);
      total[block] += rounded;
      const Narrow narrow = __builtin_convertvector(rounded, Narrow);
      __builtin_memcpy(q + vec * kLanes, &narrow, sizeof(narrow));
    }
  }
  const VecI sums = ReduceFour(total, [](VecI a, VecI b) { return a + b; });
  const VecI start = -128 * sums;
  const auto four_scales = __builtin_shufflevector(scale, scale, 0, 4, 8, 12);
  const auto four_starts = __builtin_shufflevector(start, start, 0, 4, 8, 12);
  __builtin_memcpy(scales, &four_scales, sizeof(four_scales));
  __builtin_memcpy(starts, &four_starts, sizeof(four_starts));
}

#endif

inline void QuantiseScaledBlocks(const VecF (&values)[kRotatedVecs], int8_t* q,
                                 pergola::kernels::cpu::BlockScales scales, int64_t block) {
#if defined(PERGOLA_SIXTEEN_LANES)
  QuantiseFourBlocks(values, q, scales.scale + block, scales.start + block);
#else
  for (int i = 0; i < kRotatedScales; ++i) {
    QuantiseBlock<kScaledVecs>(values + i * kScaledVecs, q + i * kScaledBlock, scales, block + i,
                               -128);
  }
#endif
}

// As QuantiseBlocks, of values that are rotated 128 at a time.
[[maybe_unused]] void QuantiseRotated(const float* x, int64_t count, int8_t* q,
                                      pergola::kernels::cpu::BlockScales scales) {
  for (int64_t begin = 0; begin < count; begin += kRotatedBlock) {
    VecF values[kRotatedVecs];
#pragma GCC unroll 32
    for (int i = 0; i < kRotatedVecs; ++i) values[i] = Load(x + begin + i * kLanes);
    RotateVectors(values);
    QuantiseScaledBlocks(values, q + begin, scales, begin / kScaledBlock);
  }
}

}  // namespace
