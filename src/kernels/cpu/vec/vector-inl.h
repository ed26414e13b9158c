// What every kernel needs of a vector beyond scalar-inl.h, avx2-inl.h, avx512-inl.h or neon-inl.h,
// one of which is included before: loads, stores, bits.
#pragma once

#include <cstdint>

namespace {

inline VecF Load(const float* source) { return *reinterpret_cast<const VecFUnaligned*>(source); }
inline void Store(float* target, VecF value) { *reinterpret_cast<VecFUnaligned*>(target) = value; }
inline VecI LoadInt(const void* source) { return *static_cast<const VecIUnaligned*>(source); }

// The same loads and stores, for the last, shorter vector of a row too: `count` lanes of 1 or more.
inline VecF LoadUpTo(const float* source, int64_t count) {
  return count >= kLanes ? Load(source) : LoadN(source, count);
}
inline void StoreUpTo(float* target, VecF value, int64_t count) {
  if (count >= kLanes) {
    Store(target, value);
  } else {
    StoreN(target, value, count);
  }
}

inline VecI Bits(VecF value) { return reinterpret_cast<VecI>(value); }
inline VecF FromBits(VecI bits) { return reinterpret_cast<VecF>(bits); }
inline VecF Abs(VecF value) { return FromBits(Bits(value) & 0x7fffffff); }
inline VecF ToFloat(VecI value) { return __builtin_convertvector(value, VecF); }
// Lanes [0, count) of `value`, 0 in the others.
inline VecF FirstN(VecF value, int64_t count) {
  return FromBits(Bits(value) & (Iota() < SetInt(static_cast<int32_t>(count))));
}

// Lane l becomes lane l ^ kStride. By constants: most strides then take quick instructions.
template <int kStride, class Vec>
inline Vec SwapLanes(Vec value) {
  constexpr int s = kStride;
  if constexpr (kLanes == 16) {
    return __builtin_shufflevector(value, value, 0 ^ s, 1 ^ s, 2 ^ s, 3 ^ s, 4 ^ s, 5 ^ s, 6 ^ s,
                                   7 ^ s, 8 ^ s, 9 ^ s, 10 ^ s, 11 ^ s, 12 ^ s, 13 ^ s, 14 ^ s,
                                   15 ^ s);
  } else if constexpr (kLanes == 8) {
    return __builtin_shufflevector(value, value, 0 ^ s, 1 ^ s, 2 ^ s, 3 ^ s, 4 ^ s, 5 ^ s, 6 ^ s,
                                   7 ^ s);
  } else {  // four
    return __builtin_shufflevector(value, value, 0 ^ s, 1 ^ s, 2 ^ s, 3 ^ s);
  }
}

// The sum of all lanes.
template <int kStride = kLanes / 2>
inline int32_t ReduceSumInt(VecI value) {
  if constexpr (kStride == 0) {
    return value[0];
  } else {
    return ReduceSumInt<kStride / 2>(value + SwapLanes<kStride>(value));
  }
}

// All lanes as bytes, into which they fit.
template <int kVecs>
inline void StoreBytes(const VecI (&values)[kVecs], int8_t* target) {
  typedef int8_t Narrow __attribute__((vector_size(kLanes)));
#pragma GCC unroll 8
  for (int vec = 0; vec < kVecs; ++vec) {
    const Narrow narrow = __builtin_convertvector(values[vec], Narrow);
    __builtin_memcpy(target + vec * kLanes, &narrow, sizeof(narrow));
  }
}

}  // namespace
