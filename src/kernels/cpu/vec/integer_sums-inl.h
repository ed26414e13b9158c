// Sums of products of 16-bit and of 8-bit integers, for vectors of AVX2 and AVX-512 alike, with
// VNNI (PERGOLA_VNNI) and without: included by avx2-inl.h and avx512-inl.h, whose types it uses.
//
// Sums stay in their registers by assembly: left to itself g++ 12 copies and spills half of a
// tile's sums. In the simde preset, whose tests run where the instructions may be missing, SIMDe
// has them.
#pragma once

#include <cstdint>

#if defined(PERGOLA_SIMDE)
#include <simde/x86/avx2.h>
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/dpwssd.h>
#include <simde/x86/avx512/maddubs.h>
#endif

namespace {

#if !defined(PERGOLA_SIMDE)

// Keeps an accumulator in a register: g++ 12 moves some through the stack otherwise.
inline void KeepInRegister(VecF& value) { asm("" : "+v"(value)); }
inline void KeepInRegister(VecI& value) { asm("" : "+v"(value)); }
// A zero of its own for every sum.
inline VecI Zero() {
  VecI zero = {};
  asm volatile("" : "+v"(zero));  // equal statements would be merged
  return zero;
}

#if defined(PERGOLA_VNNI)
#if defined(PERGOLA_SIXTEEN_LANES)
#define PERGOLA_ENCODING ""
#else
#define PERGOLA_ENCODING "%{vex%} "  // of AVX-VNNI, not of AVX-512
#endif
// Per 32-bit lane: sum += the products of its two 16-bit halves.
inline void AddWordProducts(VecI a, VecI b, VecI& sum) {
  asm(PERGOLA_ENCODING "vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
// Per 32-bit lane: sum += the products of its four bytes, those of `a` unsigned.
inline void AddByteProducts(VecI a, VecI b, VecI& sum) {
  asm(PERGOLA_ENCODING "vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
#else
// Per 32-bit lane: sum += a
inline void AddDoubleWords(VecI a, VecI& sum) { asm("vpaddd %1, %0, %0" : "+v"(sum) : "v"(a)); }
// Per 16-bit lane: sum += the products of its two bytes, those of `a` unsigned.
inline void AddBytePairs(VecI a, VecI b, VecI& sum) {
  VecI pairs;
  asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+v"(sum), "=&v"(pairs) : "v"(a), "v"(b));
}
#endif

#else  // PERGOLA_SIMDE

#if defined(PERGOLA_SIXTEEN_LANES)
typedef simde__m512i IntBits;
#define PERGOLA_OF_WIDTH(name) simde_mm512_##name
#else
typedef simde__m256i IntBits;
#define PERGOLA_OF_WIDTH(name) simde_mm256_##name
#endif
inline IntBits ToBits(VecI value) { return reinterpret_cast<IntBits>(value); }

inline void KeepInRegister(VecF&) {}
inline void KeepInRegister(VecI&) {}
inline VecI Zero() { return VecI{}; }
#if defined(PERGOLA_VNNI)
inline void AddWordProducts(VecI a, VecI b, VecI& sum) {
  sum = reinterpret_cast<VecI>(PERGOLA_OF_WIDTH(dpwssd_epi32)(ToBits(sum), ToBits(a), ToBits(b)));
}
inline void AddByteProducts(VecI a, VecI b, VecI& sum) {
  sum = reinterpret_cast<VecI>(PERGOLA_OF_WIDTH(dpbusd_epi32)(ToBits(sum), ToBits(a), ToBits(b)));
}
#else
inline void AddDoubleWords(VecI a, VecI& sum) { sum += a; }
inline void AddBytePairs(VecI a, VecI b, VecI& sum) {
  const IntBits pairs = PERGOLA_OF_WIDTH(maddubs_epi16)(ToBits(a), ToBits(b));
  sum = reinterpret_cast<VecI>(PERGOLA_OF_WIDTH(add_epi16)(ToBits(sum), pairs));
}
#endif

#endif

// Per 32-bit lane: sum += a.low * b.low + a.high * b.high of its two 16-bit halves.
constexpr bool kHasPairDot = true;
// Per 32-bit lane: sum += the products of four bytes, of `a` unsigned and (without VNNI) below 16,
// of `b` signed, of the fours of a block (without VNNI eight). Sums begin at ByteDotStart
// (tiles-inl.h).
constexpr bool kHasByteDot = true;

#if defined(PERGOLA_VNNI)

constexpr bool kFusedPairDot = true;  // one instruction
inline void AddPairDot(VecI a, VecI b, VecI& sum) { AddWordProducts(a, b, sum); }

// Whether it takes any unsigned byte and sums any number of fours.
constexpr bool kHasWideByteDot = true;
constexpr bool kHalvedByteDots = false;
inline void AddByteDot(VecI a, VecI b, VecI& sum) { AddByteProducts(a, b, sum); }
inline VecI EndByteDots(VecI sum) { return sum; }

#else

constexpr bool kFusedPairDot = false;
inline void AddPairDot(VecI a, VecI b, VecI& sum) { AddDoubleWords(PairDots(a, b), sum); }

constexpr bool kHasWideByteDot = false;
constexpr bool kHalvedByteDots = true;
inline void AddByteDot(VecI a, VecI b, VecI& sum) { AddBytePairs(a, b, sum); }
inline VecI EndByteDots(VecI sum) { return PairDots(sum, SetInt(0x00010001)); }

#endif

}  // namespace
