// CRC-32C (Castagnoli), as iSCSI has it, of what travels between machines.
//
//   const uint32_t sum = Crc32c(payload);
//
// By products of polynomials where the CPU has them for vectors (some 55 GB/s) or by its
// instruction (25 GB/s), else by tables (1.5 GB/s).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pergola::kernels {

// `before` is that of the bytes in front of these. Thread-safe; allocates nothing.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// That of two stretches, one behind the other, from that of each; some 100 ns. Thread-safe.
uint32_t JoinCrc32c(uint32_t first, uint32_t second, uint64_t second_bytes);

}  // namespace pergola::kernels
