#include "kernels/checksum.h"

#include <array>
#include <cstring>

#include "kernels/cpu/kernel_table.h"
#include "kernels/select.h"

namespace pergola::kernels {
namespace {

// Tables of the reflected polynomial 0x82F63B78, for eight bytes at a time.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
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

}  // namespace pergola::kernels
