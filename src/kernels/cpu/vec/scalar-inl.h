// Vectors of the baseline: four lanes, what every x86-64 and AArch64 has, by the compiler's vector
// types; with SSSE3 dot products of bytes. No fused multiply-add: a * b is rounded before c is
// added.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSSE3__)
#include <tmmintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace {

constexpr int kLanes = 4;
constexpr int kMaxTileRows = 2;
constexpr int kTilePanels = 1;
constexpr int kVectorRegisters = 8;  // of 16: products need registers of their own

typedef float VecF __attribute__((vector_size(16)));
typedef int32_t VecI __attribute__((vector_size(16)));
typedef float VecFUnaligned __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t VecIUnaligned __attribute__((vector_size(16), aligned(1), may_alias));

inline VecF Set(float value) { return VecF{value, value, value, value}; }
inline VecI SetInt(int32_t value) { return VecI{value, value, value, value}; }
inline VecI Iota() { return VecI{0, 1, 2, 3}; }

inline VecF MulAdd(VecF a, VecF b, VecF c) { return a * b + c; }
// b where either is not a number.
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
  typedef uint16_t Halves __attribute__((vector_size(8)));
  Halves halves;
  std::memcpy(&halves, source, sizeof(halves));
  const VecI bits = __builtin_convertvector(halves, VecI);
  const VecI magnitude = bits & 0x7fff;
  // Moves the exponent by the factor 2^112, which normalises subnormals too.
  VecF value = reinterpret_cast<VecF>(magnitude << 13) * Set(0x1p112f);
  const VecF special = reinterpret_cast<VecF>((magnitude << 13) | 0x7f800000);
  value = magnitude >= 0x7c00 ? special : value;
  return reinterpret_cast<VecF>(reinterpret_cast<VecI>(value) | ((bits & 0x8000) << 16));
}
// One half in every lane; as many bytes as LoadF16 takes are read.
inline VecF SetF16(const void* source) {
  return Set(LoadF16(static_cast<const uint16_t*>(source))[0]);
}
inline VecF LoadBF16(const uint16_t* source) {
  typedef uint16_t Halves __attribute__((vector_size(8)));
  Halves halves;
  std::memcpy(&halves, source, sizeof(halves));
  return reinterpret_cast<VecF>(__builtin_convertvector(halves, VecI) << 16);
}

// The largest lane.
inline float ReduceMax(VecF value) {
  const float low = value[0] > value[1] ? value[0] : value[1];
  const float high = value[2] > value[3] ? value[2] : value[3];
  return low > high ? low : high;
}

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
  typedef int8_t Bytes __attribute__((vector_size(8)));
  typedef int16_t Words __attribute__((vector_size(16)));
  Bytes bytes;
  std::memcpy(&bytes, source, sizeof(bytes));
  return reinterpret_cast<VecI>(__builtin_convertvector(bytes, Words));
}

// Four signed bytes, a lane each.
inline VecI LoadBytes(const void* source) {
  int8_t bytes[kLanes];
  __builtin_memcpy(bytes, source, sizeof(bytes));
  return VecI{bytes[0], bytes[1], bytes[2], bytes[3]};
}

// Keeps an accumulator in a register: the compiler may not move it through memory.
inline void KeepInRegister([[maybe_unused]] VecF& value) {
#if defined(__SSE2__)
  asm("" : "+x"(value));
#endif
}
inline void KeepInRegister([[maybe_unused]] VecI& value) {
#if defined(__SSE2__)
  asm("" : "+x"(value));
#endif
}
inline VecI Zero() { return VecI{}; }

// Per 32-bit lane: sum += a.low * b.low + a.high * b.high of its two 16-bit halves.
constexpr bool kHasPairDot = true;
constexpr bool kFusedPairDot = false;  // one instruction
inline void AddPairDot(VecI a, VecI b, VecI& sum) {
#if defined(__SSE2__)
  sum += reinterpret_cast<VecI>(
      _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  sum += ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

// Per 32-bit lane: sum += the products of four bytes, of `a` unsigned and below 16, of `b` signed,
// of the eight fours of a block. Sums begin at ByteDotStart (tiles-inl.h).
#if defined(__SSSE3__)
constexpr bool kHasByteDot = true;
// By assembly: left to itself g++ 12 moves the sums of a tile through the stack.
constexpr bool kHalvedByteDots = true;
inline void AddByteDot(VecI a, VecI b, VecI& sum) {
  VecI pairs;
  asm("movdqa %2, %1\n\tpmaddubsw %3, %1\n\tpaddw %1, %0"
      : "+x"(sum), "=&x"(pairs)
      : "x"(a), "x"(b));
}
inline VecI EndByteDots(VecI sum) {
  return reinterpret_cast<VecI>(_mm_madd_epi16(reinterpret_cast<__m128i>(sum), _mm_set1_epi16(1)));
}
#else
constexpr bool kHasByteDot = false;
constexpr bool kHalvedByteDots = false;
inline void AddByteDot(VecI, VecI, VecI&) {}
inline VecI EndByteDots(VecI sum) { return sum; }
#endif
// Whether it takes any unsigned byte and sums any number of fours.
constexpr bool kHasWideByteDot = false;
constexpr bool kHasBF16Dot = false;
inline void AddBF16Dot(VecI, VecI, VecF&) {}
inline void StoreBF16(VecF, uint16_t*) {}
constexpr bool kHasLookUp = false;
inline VecF LookUp(const float*, VecI) { return VecF{}; }
inline bool Any(VecI) { return false; }

}  // namespace
