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

inline int32_t ReduceSumInt(VecI value) {
  int32_t lanes[kLanes];
  __builtin_memcpy(lanes, &value, sizeof(lanes));
  int32_t sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

}  // namespace
