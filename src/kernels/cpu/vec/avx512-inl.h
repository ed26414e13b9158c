// Vectors of AVX-512 (F, BW, DQ, VL): sixteen lanes. A file of isa/ that has VNNI or BF16 too
// defines PERGOLA_VNNI or PERGOLA_BF16 before.
#pragma once

#include <cstdint>

#if defined(PERGOLA_SIMDE)
#include "kernels/cpu/vec/avx512_simde-inl.h"
#else
#include "kernels/cpu/vec/avx512_instructions-inl.h"
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
inline VecF LoadBF16(const uint16_t* source) {
  const __m512i wide =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

// Lane l of the result is lane lanes[l] of `value`.
[[maybe_unused]] inline VecF SelectLanes(VecF value, VecI lanes) {
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(lanes), value);
}

// Of a table of 32 values that of each lane's index, of which the lowest 5 bits count.
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

// Per 32-bit lane: sum += a.low * b.low + a.high * b.high of its two 16-bit halves.
constexpr bool kHasPairDot = true;
#if defined(PERGOLA_VNNI)
constexpr bool kFusedPairDot = true;  // one instruction
inline void AddPairDot(VecI a, VecI b, VecI& sum) { AddWordProducts(a, b, sum); }
#else
constexpr bool kFusedPairDot = false;
inline void AddPairDot(VecI a, VecI b, VecI& sum) {
  AddDoubleWords(reinterpret_cast<VecI>(
                     _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b))),
                 sum);
}
#endif

// Per 32-bit lane: the products of four bytes, of `a` unsigned and (without VNNI) below 16, of `b`
// signed, summed over the fours of a block (without VNNI eight) from `start`. Begin, Add, End.
constexpr bool kHasByteDot = true;
#if defined(PERGOLA_VNNI)
inline VecI BeginByteDots(int32_t start) { return SetInt(start); }
inline void AddByteDot(VecI a, VecI b, VecI& sum) { AddByteProducts(a, b, sum); }
inline VecI EndByteDots(VecI sum, int32_t) { return sum; }
#else
// Pairs are summed in 16 bits: 8 * 2 * 15 * 127 is below 2^15.
inline VecI BeginByteDots(int32_t) { return Zero(); }
inline void AddByteDot(VecI a, VecI b, VecI& sum) { AddBytePairs(a, b, sum); }
inline VecI EndByteDots(VecI sum, int32_t start) {
  return reinterpret_cast<VecI>(
             _mm512_madd_epi16(reinterpret_cast<__m512i>(sum), _mm512_set1_epi16(1))) +
         start;
}
#endif

// Per lane: sum += the products of its two bf16 halves, the high one first; subnormals count as
// zero.
#if defined(PERGOLA_BF16)
constexpr bool kHasBF16Dot = true;
inline void AddBF16Dot(VecI a, VecI b, VecF& sum) { AddBF16Products(a, b, sum); }
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
