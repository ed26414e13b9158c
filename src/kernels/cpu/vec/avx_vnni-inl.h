// What AVX-VNNI adds to AVX2: sums stay in their registers by assembly, as in avx2-inl.h. For the
// simde preset by SIMDe, since its tests run where the instructions may be missing.
#pragma once

#include <immintrin.h>

#include <cstdint>

#if defined(PERGOLA_SIMDE)
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/dpwssd.h>
#endif

namespace {

typedef int32_t VecI __attribute__((vector_size(32)));

#if defined(PERGOLA_SIMDE)
inline void AddWordProducts(VecI a, VecI b, VecI& sum) {
  sum = reinterpret_cast<VecI>(simde_mm256_dpwssd_epi32(
      reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

inline void AddByteProducts(VecI a, VecI b, VecI& sum) {
  sum = reinterpret_cast<VecI>(simde_mm256_dpbusd_epi32(
      reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
#else
// Per 32-bit lane: sum += the products of its two 16-bit halves.
inline void AddWordProducts(VecI a, VecI b, VecI& sum) {
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}

// Per 32-bit lane: sum += the products of its four bytes, those of `a` unsigned.
inline void AddByteProducts(VecI a, VecI b, VecI& sum) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}
#endif

}  // namespace
