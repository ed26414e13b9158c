// CRC-32C by the instruction for it, where there is one.
//
// The instruction takes 3 cycles until its result can go on, so three stretches run side by side
// and are put together by what many zero bytes make of a checksum, which is linear: a table.
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

#else

constexpr bool kHasCrc = false;
[[maybe_unused]] uint32_t Crc32c(uint32_t crc, const std::byte*, int64_t) { return crc; }

#endif

}  // namespace
