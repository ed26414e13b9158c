#include "gateway/short_float.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace pergola::gateway {
namespace {

// Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020), for float32 between 2^-13
// and 2^13: there ten powers are enough, and the text is never a scientific one.
constexpr int kSmallestExponent = 127 - 13;
constexpr int kLargestExponent = 127 + 12;

// floor(10^i 2^(63 - floor(log2 10^i))) + 1.
constexpr std::array<uint64_t, 16> kPowersOf10 = {
    0x8000000000000001, 0xA000000000000001, 0xC800000000000001, 0xFA00000000000001,
    0x9C40000000000001, 0xC350000000000001, 0xF424000000000001, 0x9896800000000001,
    0xBEBC200000000001, 0xEE6B280000000001, 0x9502F90000000001, 0xBA43B74000000001,
    0xE8D4A51000000001, 0x9184E72A00000001, 0xB5E620F480000001, 0xE35FA931A0000001};

constexpr int FloorLog10Of2To(int e) { return (e * 1262611) >> 22; }
constexpr int FloorLog10Of3QuartersOf2To(int e) { return (e * 1262611 - 524031) >> 22; }
constexpr int FloorLog2Of10To(int e) { return (e * 1741647) >> 19; }

// g cp / 2^64, rounded to odd: the last bit says whether anything was cut off.
uint32_t RoundToOdd(uint64_t g, uint64_t cp) {
  __extension__ typedef unsigned __int128 Product;
  const Product product = static_cast<Product>(g) * cp;
  const auto high = static_cast<uint64_t>(product >> 64);
  const bool cut = static_cast<uint64_t>(product) >> 32 > 1;
  return static_cast<uint32_t>(high) | (cut ? 1 : 0);
}

struct Decimal {  // digits 10^exponent
  uint32_t digits;
  int exponent;
};

// The shortest of the decimals that read back as the number, of these the nearest.
Decimal Shortest(uint32_t fraction, int biased_exponent) {
  const uint32_t c = fraction | 1u << 23;
  const int q = biased_exponent - 150;
  const uint32_t odd = c & 1;
  const bool closer_below = fraction == 0;
  const int k = closer_below ? FloorLog10Of3QuartersOf2To(q) : FloorLog10Of2To(q);
  const int h = q + FloorLog2Of10To(-k) + 1;
  const uint64_t g = kPowersOf10[static_cast<size_t>(-k)];
  const auto scaled = [&](uint32_t quarters) {
    return RoundToOdd(g, static_cast<uint64_t>(quarters) << h);
  };
  const uint32_t value = scaled(4 * c);
  const uint32_t lower = scaled(4 * c - 2 + (closer_below ? 1 : 0)) + odd;
  const uint32_t upper = scaled(4 * c + 2) - odd;
  const uint32_t whole = value / 4;
  if (whole >= 10) {
    const uint32_t tens = whole / 10;
    const bool down = lower <= 40 * tens;
    const bool up = 40 * tens + 40 <= upper;
    if (down != up) return {tens + (up ? 1 : 0), k + 1};
  }
  const bool down = lower <= 4 * whole;
  const bool up = 4 * whole + 4 <= upper;
  if (down != up) return {whole + (up ? 1 : 0), k};
  const uint32_t middle = 4 * whole + 2;
  const bool round_up = value > middle || (value == middle && (whole & 1) != 0);
  return {whole + (round_up ? 1 : 0), k};
}

constexpr std::array<char, 200> kPairs = [] {
  std::array<char, 200> pairs{};
  for (size_t i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}();

// Writes them to end at `end`; returns their begin.
char* WriteDigitsBefore(char* end, uint32_t digits) {
  while (digits >= 100) {
    end -= 2;
    std::memcpy(end, &kPairs[2 * (digits % 100)], 2);
    digits /= 100;
  }
  if (digits >= 10) {
    end -= 2;
    std::memcpy(end, &kPairs[2 * digits], 2);
  } else {
    *--end = static_cast<char>('0' + digits);
  }
  return end;
}

}  // namespace

char* WriteShortFloat(float value, char* begin) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const int biased_exponent = static_cast<int>(bits >> 23 & 0xFF);
  if (biased_exponent < kSmallestExponent || biased_exponent > kLargestExponent) {
    return std::to_chars(begin, begin + kShortFloatBytes, value).ptr;
  }
  Decimal decimal = Shortest(bits & 0x7FFFFF, biased_exponent);
  while (decimal.digits % 10 == 0) {
    decimal.digits /= 10;
    ++decimal.exponent;
  }
  std::array<char, 24> buffer{};  // some more is copied than there is
  char* const end = buffer.data() + 12;
  const char* const digits = WriteDigitsBefore(end, decimal.digits);
  const auto count = static_cast<int>(end - digits);
  const int point = count + decimal.exponent;  // digits before it
  // The only ones of these that are shorter as 2e-04.
  if (count == 1 && point < -2) return std::to_chars(begin, begin + kShortFloatBytes, value).ptr;
  char* at = begin;
  *at = '-';
  at += bits >> 31;
  if (point <= 0) {
    std::memcpy(at, "0.00000", 7);
    at += 2 - point;
    std::memcpy(at, digits, 9);
    return at + count;
  }
  std::memcpy(at, digits, static_cast<size_t>(count));
  if (point >= count) {
    std::memset(at + count, '0', static_cast<size_t>(point - count));
    return at + point;
  }
  std::memmove(at + point + 1, at + point, static_cast<size_t>(count - point));
  at[point] = '.';
  return at + count + 1;
}

}  // namespace pergola::gateway
