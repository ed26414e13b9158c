// Vectors of AVX-512 (F, BW, DQ, VL): sixteen lanes. A file of isa/ that has VNNI or BF16 too
// defines PERGOLA_VNNI or PERGOLA_BF16 before. What only so many lanes have is behind
// PERGOLA_SIXTEEN_LANES.
#pragma once

#define PERGOLA_SIXTEEN_LANES

#include <cstdint>

namespace {

typedef float VecF __attribute__((vector_size(64)));
typedef int32_t VecI __attribute__((vector_size(64)));
typedef float VecFUnaligned __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t VecIUnaligned __attribute__((vector_size(64), aligned(1), may_alias));

}  // namespace

#if defined(PERGOLA_SIMDE)
#include "kernels/cpu/vec/avx512_simde-inl.h"
#else
#include <immintrin.h>
#endif

namespace {

constexpr int kLanes = 16;
constexpr int kMaxTileRows = 12;  // 12 x 2 accumulators and 2 weights of 32 registers
constexpr int kTilePanels = 2;
constexpr int kVectorRegisters = 32;

inline VecF Set(float value) { return _mm512_set1_ps(value); }
inline VecI SetInt(int32_t value) { return reinterpret_cast<VecI>(_mm512_set1_epi32(value)); }
inline VecI Iota() { return VecI{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

inline VecF MulAdd(VecF a, VecF b, VecF c) { return _mm512_fmadd_ps(a, b, c); }
// b where either is not a number.
inline VecF Max(VecF a, VecF b) { return _mm512_max_ps(a, b); }
inline VecF Min(VecF a, VecF b) { return _mm512_min_ps(a, b); }

inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << static_cast<unsigned>(count)) - 1u);
}
inline VecF LoadN(const float* source, int64_t count) {
  return _mm512_maskz_loadu_ps(FirstLanes(count), source);
}
inline void StoreN(float* target, VecF value, int64_t count) {
  _mm512_mask_storeu_ps(target, FirstLanes(count), value);
}

inline VecF LoadF16(const uint16_t* source) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
}
// One half in every lane.
inline VecF SetF16(const void* source) {
  uint16_t half;
  __builtin_memcpy(&half, source, sizeof(half));
  return _mm512_set1_ps(_cvtsh_ss(half));
}
inline VecF LoadBF16(const uint16_t* source) {
  const __m512i wide =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

// Lane l of the result is lane lanes[l] of `value`.
[[maybe_unused]] inline VecF SelectLanes(VecF value, VecI lanes) {
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(lanes), value);
}

// Of a table of 32 values, aligned to 64 bytes, that of each lane's index, of which the lowest 5
// bits count.
constexpr bool kHasLookUp = true;
inline VecF LookUp(const float* table, VecI index) {
  return _mm512_permutex2var_ps(_mm512_load_ps(table), reinterpret_cast<__m512i>(index),
                                _mm512_load_ps(table + 16));
}

// Whether a comparison holds in any lane.
inline bool Any(VecI holds) { return _mm512_movepi32_mask(reinterpret_cast<__m512i>(holds)) != 0; }

// The largest lane.
inline float ReduceMax(VecF value) { return _mm512_reduce_max_ps(value); }

// ((lane 0 + lane L/2) + ...): halves are folded until one lane is left.
inline float ReduceSum(VecF value) {
  value += __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13,
                                   14, 15);
  value += __builtin_shufflevector(value, value, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  value += __builtin_shufflevector(value, value, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3);
  return value[0] + value[1];
}

// Lane i is ReduceSum(values[i]).
inline VecF ReduceSums(const VecF (&values)[kLanes]) {
  VecF by_8[8], by_4[4], by_2[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const VecF a = values[2 * i], b = values[2 * i + 1];
    by_8[i] =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const VecF a = by_8[2 * i], b = by_8[2 * i + 1];
    by_4[i] =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const VecF a = by_4[2 * i], b = by_4[2 * i + 1];
    by_2[i] =
        __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
        __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
  }
  return __builtin_shufflevector(by_2[0], by_2[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                 26, 28, 30) +
         __builtin_shufflevector(by_2[0], by_2[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
                                 27, 29, 31);
}

// Thirty-two bytes as thirty-two 16-bit values.
inline VecI LoadSignedBytes(const void* source) {
  return reinterpret_cast<VecI>(
      _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(source))));
}

// Sixteen signed bytes, a lane each.
inline VecI LoadBytes(const void* source) {
  return reinterpret_cast<VecI>(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(source))));
}

// Per 32-bit lane: a.low * b.low + a.high * b.high of its two 16-bit halves.
[[maybe_unused]] inline VecI PairDots(VecI a, VecI b) {
  return reinterpret_cast<VecI>(
      _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

// Per lane: sum += the products of its two bf16 halves, the high one first; subnormals count as
// zero.
#if defined(PERGOLA_BF16)
constexpr bool kHasBF16Dot = true;
#if defined(PERGOLA_SIMDE)
inline void AddBF16Dot(VecI a, VecI b, VecF& sum) { AddBF16Products(a, b, sum); }
#else
inline void AddBF16Dot(VecI a, VecI b, VecF& sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
#endif
inline void StoreBF16(VecF value, uint16_t* target) {
  const __m256bh rounded = _mm512_cvtneps_pbh(value);
  __builtin_memcpy(target, &rounded, sizeof(rounded));
}
#else
constexpr bool kHasBF16Dot = false;
inline void AddBF16Dot(VecI, VecI, VecF&) {}
inline void StoreBF16(VecF, uint16_t*) {}
#endif

}  // namespace

#include "kernels/cpu/vec/integer_sums-inl.h"
