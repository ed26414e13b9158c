// Vectors of AVX2 with FMA and F16C: eight lanes. A file of isa/ that has AVX-VNNI too defines
// PERGOLA_VNNI before.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

constexpr int kLanes = 8;
constexpr int kMaxTileRows = 6;  // 6 x 2 accumulators, 2 weights, 1 activation: 15 of 16 registers
constexpr int kTilePanels = 1;
constexpr int kVectorRegisters = 16;

typedef float VecF __attribute__((vector_size(32)));
typedef int32_t VecI __attribute__((vector_size(32)));
typedef float VecFUnaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t VecIUnaligned __attribute__((vector_size(32), aligned(1), may_alias));

inline VecF Set(float value) { return _mm256_set1_ps(value); }
inline VecI SetInt(int32_t value) { return reinterpret_cast<VecI>(_mm256_set1_epi32(value)); }
inline VecI Iota() { return VecI{0, 1, 2, 3, 4, 5, 6, 7}; }

inline VecF MulAdd(VecF a, VecF b, VecF c) { return _mm256_fmadd_ps(a, b, c); }
// b where either is not a number.
inline VecF Max(VecF a, VecF b) { return _mm256_max_ps(a, b); }
inline VecF Min(VecF a, VecF b) { return _mm256_min_ps(a, b); }

inline __m256i FirstLanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            reinterpret_cast<__m256i>(Iota()));
}
inline VecF LoadN(const float* source, int64_t count) {
  return _mm256_maskload_ps(source, FirstLanes(count));
}
inline void StoreN(float* target, VecF value, int64_t count) {
  _mm256_maskstore_ps(target, FirstLanes(count), value);
}

inline VecF LoadF16(const uint16_t* source) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
}
// One half in every lane.
inline VecF SetF16(const void* source) {
  uint16_t half;
  __builtin_memcpy(&half, source, sizeof(half));
  return _mm256_set1_ps(_cvtsh_ss(half));
}
inline VecF LoadBF16(const uint16_t* source) {
  const __m256i wide =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

// The largest lane.
inline float ReduceMax(VecF value) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// ((lane 0 + lane L/2) + ...): halves are folded until one lane is left.
inline float ReduceSum(VecF value) {
  value += __builtin_shufflevector(value, value, 4, 5, 6, 7, 4, 5, 6, 7);
  value += __builtin_shufflevector(value, value, 2, 3, 2, 3, 2, 3, 2, 3);
  return value[0] + value[1];
}

// Lane i is ReduceSum(values[i]).
inline VecF ReduceSums(const VecF (&values)[kLanes]) {
  VecF by_4[4], by_2[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const VecF a = values[2 * i], b = values[2 * i + 1];
    by_4[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
              __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const VecF a = by_4[2 * i], b = by_4[2 * i + 1];
    by_2[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13) +
              __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  }
  return __builtin_shufflevector(by_2[0], by_2[1], 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(by_2[0], by_2[1], 1, 3, 5, 7, 9, 11, 13, 15);
}

// Sixteen bytes as sixteen 16-bit values.
inline VecI LoadSignedBytes(const void* source) {
  return reinterpret_cast<VecI>(
      _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(source))));
}

// Eight signed bytes, a lane each.
inline VecI LoadBytes(const void* source) {
  return reinterpret_cast<VecI>(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(source))));
}

// All lanes as bytes, into which they fit: as StoreBytes of vector-inl.h, in four instructions.
inline void StoreBytes(const VecI (&values)[4], int8_t* target) {
  const auto bits = [&](int vec) { return reinterpret_cast<__m256i>(values[vec]); };
  const __m256i words = _mm256_packs_epi32(bits(0), bits(1));
  const __m256i bytes = _mm256_packs_epi16(words, _mm256_packs_epi32(bits(2), bits(3)));
  // Lower halves of the four vectors come before their upper ones.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                      _mm256_permutevar8x32_epi32(bytes, order));
}

// Per 32-bit lane: a.low * b.low + a.high * b.high of its two 16-bit halves.
inline VecI PairDots(VecI a, VecI b) {
  return reinterpret_cast<VecI>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

constexpr bool kHasBF16Dot = false;
inline void AddBF16Dot(VecI, VecI, VecF&) {}
inline void StoreBF16(VecF, uint16_t*) {}
constexpr bool kHasLookUp = false;
inline VecF LookUp(const float*, VecI) { return VecF{}; }
inline bool Any(VecI) { return false; }

}  // namespace

#include "kernels/cpu/vec/integer_sums-inl.h"
