// CRC-32C by the instruction for it, where there is one, or by products of polynomials.
//
// The instruction takes 3 cycles until its result can go on, so three stretches run side by side
// and are put together by what many zero bytes make of a checksum, which is linear: a table.
//
// Products of polynomials without carries move 16 bytes a number of places on: 256 bytes in four
// vectors are folded into the 256 bytes that follow them, with the same checksum. Twice as fast,
// and what is folded need not come from memory.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE4_2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace {

#if defined(__SSE4_2__) || defined(__ARM_FEATURE_CRC32)

constexpr bool kHasCrc = true;

#if defined(__SSE4_2__)
inline uint32_t AddEight(uint32_t crc, uint64_t eight) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, eight));
}
inline uint32_t AddOne(uint32_t crc, uint8_t one) { return _mm_crc32_u8(crc, one); }
#else
inline uint32_t AddEight(uint32_t crc, uint64_t eight) { return __crc32cd(crc, eight); }
inline uint32_t AddOne(uint32_t crc, uint8_t one) { return __crc32cb(crc, one); }
#endif

constexpr int64_t kCrcStretch = 1024;

// table[i][b] = what kCrcStretch zero bytes make of a checksum whose byte i is b.
struct ZerosAfter {
  uint32_t table[4][256];

  constexpr ZerosAfter() : table() {
    uint32_t of_bit[32] = {};
    for (int bit = 0; bit < 32; ++bit) {
      uint32_t crc = uint32_t{1} << bit;
      for (int64_t step = 0; step < 8 * kCrcStretch; ++step) {
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
      }
      of_bit[bit] = crc;
    }
    for (int byte = 0; byte < 4; ++byte) {
      for (int value = 0; value < 256; ++value) {
        for (int bit = 0; bit < 8; ++bit) {
          if ((value >> bit & 1) != 0) table[byte][value] ^= of_bit[8 * byte + bit];
        }
      }
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
           table[3][crc >> 24];
  }
};
constexpr ZerosAfter kZerosAfter;

inline uint64_t LoadEight(const std::byte* bytes) {
  uint64_t eight;
  __builtin_memcpy(&eight, bytes, sizeof(eight));
  return eight;
}

uint32_t Crc32c(uint32_t crc, const std::byte* bytes, int64_t count) {
  for (; count >= 3 * kCrcStretch; count -= 3 * kCrcStretch, bytes += 3 * kCrcStretch) {
    uint32_t second = 0, third = 0;
    for (int64_t at = 0; at < kCrcStretch; at += 8) {
      crc = AddEight(crc, LoadEight(bytes + at));
      second = AddEight(second, LoadEight(bytes + kCrcStretch + at));
      third = AddEight(third, LoadEight(bytes + 2 * kCrcStretch + at));
    }
    crc = kZerosAfter(kZerosAfter(crc) ^ second) ^ third;
  }
  for (; count >= 8; count -= 8, bytes += 8) crc = AddEight(crc, LoadEight(bytes));
  for (; count > 0; --count, ++bytes) crc = AddOne(crc, static_cast<uint8_t>(*bytes));
  return crc;
}

#if defined(__VPCLMULQDQ__)

// x^n modulo the polynomial, reflected: the highest bit is x^0.
constexpr uint32_t PowerOfX(int n) {
  uint32_t power = 0x80000000u;
  for (; n > 0; --n) power = (power >> 1) ^ ((power & 1) != 0 ? 0x82F63B78u : 0u);
  return power;
}

class FoldedCrc {
 public:
  static constexpr int kVecs = 4;
  static constexpr int64_t kBytes = 64 * kVecs;

  // The first kBytes of what follows on `crc`.
  FoldedCrc(uint32_t crc, const __m512i (&first)[kVecs])
      : state_{_mm512_xor_si512(
                   first[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int32_t>(crc)))),
               first[1], first[2], first[3]} {}
  // The next.
  void Add(const __m512i (&next)[kVecs]) {
    // Of each 16 bytes the first 8 go on by 64 bits more. Reflected products of 64 and 32 bits
    // stand 33 bits too far.
    constexpr int kBits = 8 * static_cast<int>(kBytes);
    const __m512i powers =
        _mm512_broadcast_i64x2(_mm_set_epi64x(PowerOfX(kBits - 33), PowerOfX(kBits + 64 - 33)));
#pragma GCC unroll 4
    for (int vec = 0; vec < kVecs; ++vec) {
      const __m512i low = _mm512_clmulepi64_epi128(state_[vec], powers, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(state_[vec], powers, 0x11);
      constexpr int kXorOfThree = 0x96;
      state_[vec] = _mm512_ternarylogic_epi64(low, high, next[vec], kXorOfThree);
    }
  }
  uint32_t Value() const {
    std::byte bytes[kBytes];
    __builtin_memcpy(bytes, state_, sizeof(bytes));
    return Crc32c(0, bytes, kBytes);
  }

 private:
  __m512i state_[kVecs];
};

uint32_t CrcByFolding(uint32_t crc, const std::byte* bytes, int64_t count) {
  constexpr int64_t kBytes = FoldedCrc::kBytes;
  if (count < 2 * kBytes) return Crc32c(crc, bytes, count);
  const auto load = [&bytes](__m512i(&next)[FoldedCrc::kVecs]) {
    __builtin_memcpy(next, bytes, sizeof(next));
    bytes += kBytes;
  };
  __m512i next[FoldedCrc::kVecs];
  load(next);
  FoldedCrc folded(crc, next);
  for (count -= kBytes; count >= kBytes; count -= kBytes) {
    load(next);
    folded.Add(next);
  }
  return Crc32c(folded.Value(), bytes, count);
}

#endif

#else

constexpr bool kHasCrc = false;
[[maybe_unused]] uint32_t Crc32c(uint32_t crc, const std::byte*, int64_t) { return crc; }

#endif

}  // namespace
