// Vectors of ARM64's Advanced SIMD: four lanes, 32 registers. Dot products of bytes with
// armv8.2-a+dotprod, of any unsigned with any signed byte with +i8mm.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace {

constexpr int kLanes = 4;
constexpr int kMaxTileRows = 6;  // 6 x 4 accumulators, 4 weights, 1 activation: 29 of 32 registers
constexpr int kTilePanels = 1;
constexpr int kVectorRegisters = 32;

typedef float VecF __attribute__((vector_size(16)));
typedef int32_t VecI __attribute__((vector_size(16)));
typedef float VecFUnaligned __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t VecIUnaligned __attribute__((vector_size(16), aligned(1), may_alias));

inline VecF Set(float value) { return vdupq_n_f32(value); }
inline VecI SetInt(int32_t value) { return vdupq_n_s32(value); }
inline VecI Iota() { return VecI{0, 1, 2, 3}; }

inline VecF MulAdd(VecF a, VecF b, VecF c) { return vfmaq_f32(c, a, b); }
// b where either is not a number. The instructions of that name give not a number or the other one.
inline VecF Max(VecF a, VecF b) { return a > b ? a : b; }
inline VecF Min(VecF a, VecF b) { return a < b ? a : b; }

inline VecF LoadN(const float* source, int64_t count) {
  VecF value = {};
  for (int64_t lane = 0; lane < count; ++lane) value[lane] = source[lane];
  return value;
}
inline void StoreN(float* target, VecF value, int64_t count) {
  for (int64_t lane = 0; lane < count; ++lane) target[lane] = value[lane];
}

inline VecF LoadF16(const uint16_t* source) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source)));
}
// One half in every lane; as many bytes as LoadF16 takes are read.
inline VecF SetF16(const void* source) {
  return Set(LoadF16(static_cast<const uint16_t*>(source))[0]);
}
inline VecF LoadBF16(const uint16_t* source) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(source), 16));
}

// The largest lane.
inline float ReduceMax(VecF value) { return vmaxvq_f32(value); }

// ((lane 0 + lane L/2) + ...): halves are folded until one lane is left.
inline float ReduceSum(VecF value) { return (value[0] + value[2]) + (value[1] + value[3]); }

// Lane i is ReduceSum(values[i]).
inline VecF ReduceSums(const VecF (&values)[kLanes]) {
  VecF by_2[2];
  for (int i = 0; i < 2; ++i) {
    const VecF a = values[2 * i], b = values[2 * i + 1];
    by_2[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  }
  return __builtin_shufflevector(by_2[0], by_2[1], 0, 2, 4, 6) +
         __builtin_shufflevector(by_2[0], by_2[1], 1, 3, 5, 7);
}

// Eight bytes as eight 16-bit values.
inline VecI LoadSignedBytes(const void* source) {
  return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(static_cast<const int8_t*>(source))));
}

// Four signed bytes, a lane each.
inline VecI LoadBytes(const void* source) {
  int32_t bytes;
  __builtin_memcpy(&bytes, source, sizeof(bytes));
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)))));
}

// Keeps an accumulator in a register: the compiler may not move it through memory.
inline void KeepInRegister(VecF& value) { asm("" : "+w"(value)); }
inline void KeepInRegister(VecI& value) { asm("" : "+w"(value)); }
// A zero of its own for every sum.
inline VecI Zero() {
  VecI zero = {};
  asm volatile("" : "+w"(zero));  // equal statements would be merged
  return zero;
}

// The low halves of the lanes, then their high halves: what the widening multiply-adds of the low
// and the high half of a register take. Once for a vector of weights, since the rows share it.
inline int16x8_t SplitHalves(VecI value) { return vshrn_high_n_s32(vmovn_s32(value), value, 16); }

// Per 32-bit lane: sum += a.low * b.low + a.high * b.high of its two 16-bit halves; all lanes of
// `a` are equal.
constexpr bool kHasPairDot = true;
constexpr bool kFusedPairDot = false;  // one instruction
inline void AddPairDot(VecI a, VecI b, VecI& sum) {
  const int16x8_t halves = SplitHalves(b);
  const int16x4_t pair = vget_low_s16(vreinterpretq_s16_s32(a));
  const int32x4_t low = vmlal_lane_s16(sum, vget_low_s16(halves), pair, 0);
  sum = vmlal_high_lane_s16(low, halves, pair, 1);
  KeepInRegister(sum);
}

// Per 32-bit lane: sum += the products of four bytes, of `a` unsigned and (without I8MM) below 16,
// of `b` signed, of the fours of a block (without dot products eight). Sums begin at ByteDotStart
// (tiles-inl.h).
constexpr bool kHasByteDot = true;
#if defined(__ARM_FEATURE_DOTPROD)
// Whether it takes any unsigned byte and sums any number of fours.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr bool kHasWideByteDot = true;
#else
constexpr bool kHasWideByteDot = false;
#endif
constexpr bool kHalvedByteDots = false;
inline void AddByteDot(VecI a, VecI b, VecI& sum) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  sum = vusdotq_s32(sum, vreinterpretq_u8_s32(a), vreinterpretq_s8_s32(b));
#else
  sum = vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
#endif
  KeepInRegister(sum);
}
inline VecI EndByteDots(VecI sum) { return sum; }
#else
constexpr bool kHasWideByteDot = false;
// Of the first and third and of the second and fourth byte.
constexpr bool kHalvedByteDots = true;
inline void AddByteDot(VecI a, VecI b, VecI& sum) {
  const int8x16_t weights = vreinterpretq_s8_s16(SplitHalves(a));
  const int8x16_t values = vreinterpretq_s8_s16(SplitHalves(b));
  const int16x8_t low =
      vmlal_s8(vreinterpretq_s16_s32(sum), vget_low_s8(weights), vget_low_s8(values));
  sum = vreinterpretq_s32_s16(vmlal_high_s8(low, weights, values));
  KeepInRegister(sum);
}
inline VecI EndByteDots(VecI sum) { return vpaddlq_s16(vreinterpretq_s16_s32(sum)); }
#endif

constexpr bool kHasBF16Dot = false;
inline void AddBF16Dot(VecI, VecI, VecF&) {}
inline void StoreBF16(VecF, uint16_t*) {}
constexpr bool kHasLookUp = false;
inline VecF LookUp(const float*, VecI) { return VecF{}; }
inline bool Any(VecI) { return false; }

}  // namespace
