#include "kernels/checksum.h"

#include <array>
#include <cstring>

#include "kernels/cpu/kernel_table.h"
#include "kernels/select.h"

namespace pergola::kernels {
namespace {

// Modulo the reflected polynomial: the highest bit is x^0.
constexpr uint32_t TimesX(uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? 0x82F63B78u : 0u); }

constexpr uint32_t Product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1, b = TimesX(b)) {
    if ((a >> 31) != 0) product ^= b;
  }
  return product;
}

// kPowers[n] = x^(8 * 2^n): what 2^n zero bytes multiply a checksum by.
constexpr auto kPowers = [] {
  std::array<uint32_t, 64> powers = {0x80000000u >> 8};
  for (size_t n = 1; n < powers.size(); ++n) powers[n] = Product(powers[n - 1], powers[n - 1]);
  return powers;
}();

// Tables for eight bytes at a time.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = TimesX(crc);
    tables[0][byte] = crc;
  }
  for (size_t table = 1; table < 8; ++table) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

uint32_t ByTables(uint32_t crc, std::span<const std::byte> bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes.data() + at, 8);
    eight ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(eight >> (8 * i)) & 0xFF];
  }
  for (; at < bytes.size(); ++at) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(bytes[at])) & 0xFF];
  }
  return crc;
}

}  // namespace

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static const auto by_instruction = [] {
    const cpu::KernelTable& table = BestKernelTable();
    return HasFoldedChecksum(table) ? table.folded_crc32c : table.crc32c;
  }();
  return ~(by_instruction != nullptr
               ? by_instruction(~before, bytes.data(), static_cast<int64_t>(bytes.size()))
               : ByTables(~before, bytes));
}

// Linear but for the inversions before and behind, which cancel out.
uint32_t JoinCrc32c(uint32_t first, uint32_t second, uint64_t second_bytes) {
  for (size_t n = 0; second_bytes != 0; ++n, second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) first = Product(kPowers[n], first);
  }
  return first ^ second;
}

}  // namespace pergola::kernels
