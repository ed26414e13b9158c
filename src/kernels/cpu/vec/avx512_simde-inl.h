// The intrinsics of avx512-inl.h on a CPU with AVX2, FMA and F16C alone: by SIMDe, and what SIMDe
// 0.7 lacks by loops. For the tests of the simde preset, which prove the logic of kernels where the
// hardware lacks AVX-512; far too slow for more.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/cvt.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/load.h>
#include <simde/x86/avx512/madd.h>
#include <simde/x86/avx512/max.h>
#include <simde/x86/avx512/min.h>
#include <simde/x86/avx512/mov_mask.h>
#include <simde/x86/avx512/permutex2var.h>
#include <simde/x86/avx512/permutexvar.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/slli.h>

#include <cstdint>

namespace {

// Two halves of a vector.
template <class Half, class Vector>
inline Vector JoinHalves(Half low, Half high) {
  static_assert(2 * sizeof(Half) == sizeof(Vector));
  Vector joined;
  __builtin_memcpy(&joined, &low, sizeof(Half));
  __builtin_memcpy(reinterpret_cast<char*>(&joined) + sizeof(Half), &high, sizeof(Half));
  return joined;
}

inline __m512 PortableCvtphPs(__m256i halves) {
  return JoinHalves<__m256, __m512>(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                                    _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
}
inline __m512i PortableCvtepu16Epi32(__m256i words) {
  return JoinHalves<__m256i, __m512i>(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)),
                                      _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1)));
}
inline __m512i PortableCvtepi8Epi32(__m128i bytes) {
  return JoinHalves<__m256i, __m512i>(_mm256_cvtepi8_epi32(bytes),
                                      _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
}
inline __m512 PortableMaskzLoaduPs(__mmask16 mask, const float* source) {
  VecF value = {};
  for (int lane = 0; lane < 16; ++lane) {
    if ((mask >> lane & 1) != 0) value[lane] = source[lane];
  }
  return value;
}
inline void PortableMaskStoreuPs(float* target, __mmask16 mask, __m512 value) {
  for (int lane = 0; lane < 16; ++lane) {
    if ((mask >> lane & 1) != 0) target[lane] = value[lane];
  }
}
inline float PortableReduceMaxPs(__m512 value) {
  float largest = value[0];
  for (int lane = 1; lane < 16; ++lane) largest = largest > value[lane] ? largest : value[lane];
  return largest;
}
#undef _mm512_madd_epi16  // SIMDe 0.7.4 gives this name four arguments
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
#undef _mm512_cvtph_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm512_reduce_max_ps
#define _mm512_cvtph_ps(halves) PortableCvtphPs(halves)
#define _mm512_cvtepu16_epi32(words) PortableCvtepu16Epi32(words)
#define _mm512_cvtepi8_epi32(bytes) PortableCvtepi8Epi32(bytes)
#define _mm512_maskz_loadu_ps(mask, source) PortableMaskzLoaduPs(mask, source)
#define _mm512_mask_storeu_ps(target, mask, value) PortableMaskStoreuPs(target, mask, value)
#define _mm512_reduce_max_ps(value) PortableReduceMaxPs(value)

#if defined(PERGOLA_BF16)
// SIMDe's _mm512_dpbf16_ps adds the low products first and keeps subnormals: the processor does
// neither.
inline uint32_t WithoutSubnormal(uint32_t bits) {
  return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}
inline float FromBF16Bits(uint32_t bits) {
  return __builtin_bit_cast(float, WithoutSubnormal(bits));
}
inline float FlushSubnormal(float value) {
  return FromBF16Bits(__builtin_bit_cast(uint32_t, value));
}

inline void AddBF16Products(VecI a, VecI b, VecF& sum) {
  for (int lane = 0; lane < 16; ++lane) {
    const auto x = static_cast<uint32_t>(a[lane]), y = static_cast<uint32_t>(b[lane]);
    float value = FlushSubnormal(sum[lane]);
    value = FlushSubnormal(
        __builtin_fmaf(FromBF16Bits(x & 0xffff0000u), FromBF16Bits(y & 0xffff0000u), value));
    value = FlushSubnormal(__builtin_fmaf(FromBF16Bits(x << 16), FromBF16Bits(y << 16), value));
    sum[lane] = value;
  }
}

inline __m256bh PortableCvtnepsPbh(__m512 value) {
  uint16_t rounded[16];
  for (int lane = 0; lane < 16; ++lane) {
    const float number = value[lane];
    uint32_t bits = WithoutSubnormal(__builtin_bit_cast(uint32_t, number));
    if (number != number) {
      bits |= 0x00400000u;  // quiet
    } else {
      bits += 0x7fffu + (bits >> 16 & 1);
    }
    rounded[lane] = static_cast<uint16_t>(bits >> 16);
  }
  __m256bh result;
  __builtin_memcpy(&result, rounded, sizeof(result));
  return result;
}
#undef _mm512_cvtneps_pbh
#define _mm512_cvtneps_pbh(value) PortableCvtnepsPbh(value)
#endif

}  // namespace
