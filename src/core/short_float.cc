#include "core/short_float.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pergola {
namespace {

// Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020), for float32 between 2^-13
// and 2^13: there ten powers are enough, and the text is never a scientific one. Powers of two,
// whose neighbour below is closer than the one above, are left to the standard library.
//
// Which of two candidates is taken, and how many digits there are, nobody can foresee: numbers of
// the usual size go through without a branch that depends on it.
constexpr uint32_t kSmallestExponent = 127 - 13;
constexpr uint32_t kExponents = 26;

// floor(10^i 2^(63 - floor(log2 10^i))) + 1.
constexpr std::array<uint64_t, 16> kPowersOf10 = {
    0x8000000000000001, 0xA000000000000001, 0xC800000000000001, 0xFA00000000000001,
    0x9C40000000000001, 0xC350000000000001, 0xF424000000000001, 0x9896800000000001,
    0xBEBC200000000001, 0xEE6B280000000001, 0x9502F90000000001, 0xBA43B74000000001,
    0xE8D4A51000000001, 0x9184E72A00000001, 0xB5E620F480000001, 0xE35FA931A0000001};

constexpr int FloorLog10Of2To(int e) { return (e * 1262611) >> 22; }
constexpr int FloorLog2Of10To(int e) { return (e * 1741647) >> 19; }

// A number is c 2^q with c of 24 bits. Counted in quarters of 10^k, of the same order as c,
// it is (4 c 2^shift) power / 2^64.
struct Scale {
  uint64_t power;
  int shift;
  int k;
};

// By the biased exponent less kSmallestExponent; a power of two of them, so that any can be asked
// for.
constexpr std::array<Scale, 32> kScales = [] {
  std::array<Scale, 32> scales{};
  for (uint32_t i = 0; i < kExponents; ++i) {
    const int q = static_cast<int>(kSmallestExponent + i) - 150;
    const int k = FloorLog10Of2To(q);
    scales[i] = {kPowersOf10[static_cast<size_t>(-k)], q + FloorLog2Of10To(-k) + 1, k};
  }
  return scales;
}();

// A float32 taken apart, in the widths that four at once are computed in.
struct Parts {
  uint64_t power;
  uint64_t quarters;  // 4 c 2^shift, under 2^31
  uint64_t half;      // of the way to the next number
  uint64_t odd;       // whether c is: then the ends of what reads back as it belong to others
  int k;
  bool common;  // else only the standard library will do
};

inline Parts PartsOf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23 & 0xFF) - kSmallestExponent;
  const uint32_t fraction = bits & 0x7F'FFFF;
  const Scale& scale = kScales[exponent & 31];
  return {.power = scale.power,
          .quarters = uint64_t{4 * (fraction | 0x80'0000)} << scale.shift,
          .half = uint64_t{2} << scale.shift,
          .odd = fraction & 1,
          .k = scale.k,
          .common = exponent < kExponents && fraction != 0};
}

// first.rest 10^(point - 1): nine digits, the eight of the rest one to a byte, the first of them in
// the lowest, without '0' added. The last ones may be zeros.
struct Digits {
  uint32_t first;
  uint64_t rest;
  int point;
};

char* WriteRareFloat(float value, char* begin) {
  return std::to_chars(begin, begin + kShortFloatBytes, value).ptr;
}

inline char* WriteDigits(float value, const Digits& digits, char* begin) {
  const int count = 9 - std::countl_zero(digits.rest) / 8;
  const int point = digits.point;
  // The only ones of these that are shorter as 2e-04.
  if (count == 1 && point < -2) return WriteRareFloat(value, begin);
  const uint64_t rest = digits.rest | 0x3030'3030'3030'3030;
  const char first = static_cast<char>('0' + digits.first);
  char* at = begin;
  *at = '-';
  at += std::bit_cast<uint32_t>(value) >> 31;
  if (point <= 0) {
    std::memcpy(at, "0.000000", 8);
    at += 2 - point;
    *at = first;
    std::memcpy(at + 1, &rest, 8);
    return at + count;
  }
  *at = first;
  std::memcpy(at + 1, &rest, 8);
  if (point >= count) return at + point;  // the zeros before the point are there
  std::memmove(at + point + 1, at + point, 9);
  at[point] = '.';
  return at + count + 1;
}

// quarters power / 2^64, rounded to odd: the last bit says whether anything was cut off.
inline uint32_t RoundToOdd(uint64_t power, uint64_t quarters) {
  const uint64_t sum = (power >> 32) * quarters + ((power & 0xFFFF'FFFF) * quarters >> 32);
  return static_cast<uint32_t>(sum >> 32) | ((sum & 0xFFFF'FFFF) > 1 ? 1 : 0);
}

// Eight digits as Digits::rest has them: halves of halves of the number.
inline uint64_t EightDigits(uint32_t number) {
  const uint64_t fours = number / 10'000 | static_cast<uint64_t>(number % 10'000) << 32;
  const uint64_t hundreds = fours * 5243 >> 19 & 0x0000'007F'0000'007F;
  const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = twos * 103 >> 10 & 0x000F'000F'000F'000F;
  return tens | (twos - tens * 10) << 8;
}

// The shortest of the decimals that read back as the number, of these the nearest.
inline Digits Shortest(const Parts& parts) {
  const uint32_t value = RoundToOdd(parts.power, parts.quarters);
  const auto odd = static_cast<uint32_t>(parts.odd);
  const uint32_t lower = RoundToOdd(parts.power, parts.quarters - parts.half) + odd;
  const uint32_t upper = RoundToOdd(parts.power, parts.quarters + parts.half) - odd;
  const uint32_t whole = value / 4;
  const uint32_t tens = whole / 10;
  const uint32_t tens_up = 40 * tens + 40 <= upper;
  const uint32_t shorter = (lower <= 40 * tens) ^ tens_up;
  const uint32_t up = 4 * whole + 4 <= upper;
  const uint32_t decided = (lower <= 4 * whole) ^ up;
  const uint32_t nearer_up = value + (whole & 1) > 4 * whole + 2;
  const uint32_t exact = whole + ((up & decided) | (nearer_up & ~decided));
  uint32_t digits = shorter != 0 ? tens + tens_up : exact;  // six to nine of them
  int point = 9 + parts.k + static_cast<int>(shorter);
  const uint32_t few = digits < 10'000'000;
  digits *= few != 0 ? 100 : 1;
  const uint32_t fewer = digits < 100'000'000;
  digits *= fewer != 0 ? 10 : 1;
  point -= static_cast<int>(2 * few + fewer);
  const uint32_t first = digits / 100'000'000;
  return {.first = first, .rest = EightDigits(digits - first * 100'000'000), .point = point};
}

#if defined(__x86_64__)

#define PERGOLA_AVX2 __attribute__((target("avx2")))

constexpr size_t kLanes = 4;

// Of four numbers, field by field.
struct FourParts {
  alignas(32) std::array<uint64_t, kLanes> power, quarters, half, odd;
};
struct FourDigits {
  alignas(32) std::array<uint64_t, kLanes> first, rest;
  alignas(32) std::array<int64_t, kLanes> point;  // less 9 + k
};

PERGOLA_AVX2 inline __m256i Load(const std::array<uint64_t, kLanes>& values) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(values.data()));
}

PERGOLA_AVX2 inline __m256i All(uint32_t value) { return _mm256_set1_epi64x(value); }

// Lanes are under 2^31, so that the low halves can be compared as int32; the high ones of numbers
// and of masks are zero.
PERGOLA_AVX2 inline __m256i Greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi32(a, b); }
PERGOLA_AVX2 inline __m256i Times(__m256i a, uint32_t factor) {
  return _mm256_mul_epu32(a, All(factor));
}
PERGOLA_AVX2 inline __m256i Plus(__m256i a, uint32_t term) {
  return _mm256_add_epi64(a, All(term));
}
PERGOLA_AVX2 inline __m256i If(__m256i mask, __m256i yes, __m256i no) {
  return _mm256_blendv_epi8(no, yes, mask);
}

PERGOLA_AVX2 inline __m256i RoundToOdd(__m256i power, __m256i quarters) {
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(power, 32), quarters);
  const __m256i low = _mm256_srli_epi64(_mm256_mul_epu32(power, quarters), 32);
  const __m256i sum = _mm256_add_epi64(high, low);
  const __m256i rest = _mm256_and_si256(sum, All(0xFFFF'FFFF));
  const __m256i cut = _mm256_srli_epi64(_mm256_cmpgt_epi64(rest, All(1)), 63);
  return _mm256_or_si256(_mm256_srli_epi64(sum, 32), cut);
}

PERGOLA_AVX2 inline __m256i EightDigits(__m256i number) {
  const __m256i high = _mm256_srli_epi64(Times(number, 0xD1B71759), 45);  // number / 10,000
  const __m256i low = _mm256_sub_epi64(number, Times(high, 10'000));
  const __m256i fours = _mm256_or_si256(high, _mm256_slli_epi64(low, 32));
  const __m256i hundreds =
      _mm256_srli_epi32(_mm256_mullo_epi32(fours, _mm256_set1_epi32(5243)), 19);
  const __m256i below =
      _mm256_sub_epi32(fours, _mm256_mullo_epi32(hundreds, _mm256_set1_epi32(100)));
  const __m256i twos = _mm256_or_si256(hundreds, _mm256_slli_epi32(below, 16));
  const __m256i tens = _mm256_srli_epi16(_mm256_mullo_epi16(twos, _mm256_set1_epi16(103)), 10);
  const __m256i ones = _mm256_sub_epi16(twos, _mm256_mullo_epi16(tens, _mm256_set1_epi16(10)));
  return _mm256_or_si256(tens, _mm256_slli_epi16(ones, 8));
}

// Shortest of four.
PERGOLA_AVX2 inline void Shortest(const FourParts& parts, FourDigits* out) {
  const __m256i one = All(1);
  const __m256i power = Load(parts.power);
  const __m256i quarters = Load(parts.quarters);
  const __m256i half = Load(parts.half);
  const __m256i odd = Load(parts.odd);
  const __m256i value = RoundToOdd(power, quarters);
  const __m256i lower = _mm256_add_epi64(RoundToOdd(power, _mm256_sub_epi64(quarters, half)), odd);
  const __m256i upper = _mm256_sub_epi64(RoundToOdd(power, _mm256_add_epi64(quarters, half)), odd);
  const __m256i whole = _mm256_srli_epi64(value, 2);
  const __m256i whole4 = _mm256_slli_epi64(whole, 2);
  const __m256i tens = _mm256_srli_epi64(Times(whole, 0xCCCCCCCD), 35);  // whole / 10
  const __m256i tens40 = Times(tens, 40);
  const __m256i tens_not_up = Greater(Plus(tens40, 40), upper);
  const __m256i shorter = _mm256_xor_si256(Greater(lower, tens40), tens_not_up);
  const __m256i not_up = Greater(Plus(whole4, 4), upper);
  const __m256i decided = _mm256_xor_si256(Greater(lower, whole4), not_up);
  const __m256i nearer_up =
      Greater(_mm256_add_epi64(value, _mm256_and_si256(whole, one)), Plus(whole4, 2));
  const __m256i up = If(decided, _mm256_andnot_si256(not_up, decided), nearer_up);
  const __m256i exact = _mm256_add_epi64(whole, _mm256_and_si256(up, one));
  const __m256i short_one = _mm256_add_epi64(tens, _mm256_andnot_si256(tens_not_up, one));
  __m256i digits = If(shorter, short_one, exact);
  const __m256i few = Greater(All(10'000'000), digits);
  digits = If(few, Times(digits, 100), digits);
  const __m256i fewer = Greater(All(100'000'000), digits);
  digits = If(fewer, Times(digits, 10), digits);
  const __m256i added = _mm256_and_si256(shorter, one);
  const __m256i taken =
      _mm256_add_epi64(_mm256_and_si256(few, All(2)), _mm256_and_si256(fewer, one));
  const __m256i first = _mm256_srli_epi64(Times(digits, 0x55E63B89), 57);  // digits / 100,000,000
  const __m256i rest = EightDigits(_mm256_sub_epi64(digits, Times(first, 100'000'000)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->first.data()), first);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->rest.data()), rest);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->point.data()), _mm256_sub_epi64(added, taken));
}

// Writes as many of the first values as it likes to take together; returns how many.
PERGOLA_AVX2 size_t WriteFours(std::span<const float> values, char** end) {
  constexpr size_t kFours = 2;  // each hides what the other waits for
  constexpr size_t kBlock = kFours * kLanes;
  const size_t whole = values.size() / kBlock * kBlock;
  char* at = *end;
  for (size_t begin = 0; begin < whole; begin += kBlock) {
    std::array<FourParts, kFours> parts;
    std::array<FourDigits, kFours> digits;
    std::array<int, kBlock> k;
    std::array<bool, kBlock> common;
    for (size_t i = 0; i < kBlock; ++i) {
      const Parts one = PartsOf(values[begin + i]);
      FourParts& four = parts[i / kLanes];
      four.power[i % kLanes] = one.power;
      four.quarters[i % kLanes] = one.quarters;
      four.half[i % kLanes] = one.half;
      four.odd[i % kLanes] = one.odd;
      k[i] = one.k;
      common[i] = one.common;
    }
    for (size_t four = 0; four < kFours; ++four) Shortest(parts[four], &digits[four]);
    for (size_t i = 0; i < kBlock; ++i) {
      const FourDigits& four = digits[i / kLanes];
      const size_t lane = i % kLanes;
      at = common[i] ? WriteDigits(values[begin + i],
                                   {.first = static_cast<uint32_t>(four.first[lane]),
                                    .rest = four.rest[lane],
                                    .point = 9 + k[i] + static_cast<int>(four.point[lane])},
                                   at)
                     : WriteRareFloat(values[begin + i], at);
      *at++ = ',';
    }
  }
  *end = at;
  return whole;
}

#undef PERGOLA_AVX2

#endif

}  // namespace

char* WriteShortFloat(float value, char* begin) {
  const Parts parts = PartsOf(value);
  return parts.common ? WriteDigits(value, Shortest(parts), begin) : WriteRareFloat(value, begin);
}

char* WriteShortFloats(std::span<const float> values, char* begin) {
  size_t done = 0;
  char* at = begin;
#if defined(__x86_64__)
  static const bool avx2 = CpuHas("avx2");
  if (avx2) done = WriteFours(values, &at);
#endif
  for (const float value : values.subspan(done)) {
    at = WriteShortFloat(value, at);
    *at++ = ',';
  }
  return at;
}

}  // namespace pergola
