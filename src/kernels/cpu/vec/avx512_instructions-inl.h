// Types of AVX-512 and what intrinsics do not keep in registers: sums stay in theirs by assembly,
// left to itself g++ 12 copies and spills half of a tile's sums. avx512_simde-inl.h has the same
// without AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

typedef float VecF __attribute__((vector_size(64)));
typedef int32_t VecI __attribute__((vector_size(64)));
typedef float VecFUnaligned __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t VecIUnaligned __attribute__((vector_size(64), aligned(1), may_alias));

// Keeps an accumulator in a register: g++ 12 moves some through the stack otherwise.
inline void KeepInRegister(VecF& value) { asm("" : "+v"(value)); }
inline void KeepInRegister(VecI& value) { asm("" : "+v"(value)); }
// A zero of its own for every sum, for the same reason as AddTo.
inline VecI Zero() {
  VecI zero = {};
  asm volatile("" : "+v"(zero));  // equal statements would be merged
  return zero;
}

// Per 32-bit lane: sum += a
[[maybe_unused]] inline void AddDoubleWords(VecI a, VecI& sum) {
  asm("vpaddd %1, %0, %0" : "+v"(sum) : "v"(a));
}

// Per 16-bit lane: sum += a.low * b.low + a.high * b.high of its two bytes, those of `a` unsigned.
[[maybe_unused]] inline void AddBytePairs(VecI a, VecI b, VecI& sum) {
  VecI pairs;
  asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+v"(sum), "=&v"(pairs) : "v"(a), "v"(b));
}

#if defined(PERGOLA_VNNI)
// Per 32-bit lane: sum += the products of its two 16-bit halves.
inline void AddWordProducts(VecI a, VecI b, VecI& sum) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}

// Per 32-bit lane: sum += the products of its four bytes, those of `a` unsigned.
inline void AddByteProducts(VecI a, VecI b, VecI& sum) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
#endif

#if defined(PERGOLA_BF16)
// Per lane: sum += the products of its two bf16 halves, the high one first; subnormals count as
// zero.
inline void AddBF16Products(VecI a, VecI b, VecF& sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
#endif

}  // namespace
