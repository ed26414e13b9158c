// Rows of an embedding table as f32, for whoever has no Ops of his own at hand.
//
//   uint32_t crc = 0;
//   const size_t good = DecodeRows(table, ids, embed_scale, rows, &crc);
//
// Widening is exact and scaling rounds once, so the bits are those of Ops::Gather on every kernel
// set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "core/thread_pool.h"

namespace pergola::kernels {

// out[i] = scale * table[ids[i]].
//   table  any dtype [V, D]       read
//   ids    [n], each in [0, V)    the caller's promise
//   out    f32 [n, D]             written; row by row until one holds a value that is not finite
//   crc    CRC-32C (checksum.h) of what goes before, then with the rows that were counted
// Returns how many rows before that one, else n. Thread-safe; allocates nothing. F32, F16, BF16 and
// Q8_0 at the speed of memory, else as DequantiseRow. Whether it is finite and the checksum cost
// nothing where the CPU has products of polynomials: both are taken while a row is in registers.
size_t DecodeRows(const TensorView& table, std::span<const int32_t> ids, float scale, float* out,
                  uint32_t* crc);

// The same, shared among the threads of a pool, whose holder the caller is: rows behind one that is
// not finite may be written, too.
size_t DecodeRows(ThreadPool& threads, const TensorView& table, std::span<const int32_t> ids,
                  float scale, float* out, uint32_t* crc);

// From so many bytes of `out` on sharing pays, though the other threads sleep when it begins (80 us
// on a small virtual machine).
inline constexpr size_t kSharedRowsBytes = size_t{2560} << 10;

}  // namespace pergola::kernels
