// The arithmetic that every reader must get right: bytes of a tensor, ranges that do not overlap.
// All of it on untrusted numbers: nothing here overflows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::formats {

// "tensor 'x' at offset 128", the subject of every message about a tensor.
std::string TensorAt(std::string_view name, uint64_t file_offset);

// A shape from dimensions as a file gives them, outermost first. UNIMPLEMENTED above rank 4;
// INVALID_ARGUMENT for a zero dimension or a product above 2^63 - 1. Messages lack the subject.
Result<Shape> CheckedShape(std::span<const uint64_t> dims);

// Bytes of a tensor: INVALID_ARGUMENT when rows are not whole blocks or the size does not fit in 63
// bits. `shape` comes from CheckedShape(). Messages lack the subject.
Result<uint64_t> CheckedBytes(DType dtype, const Shape& shape);

// Bytes [begin, end) of a file taken by a tensor; begin <= end.
struct Extent {
  uint64_t begin;
  uint64_t end;
  const std::string* name;  // must outlive the extent
};

// Sorts by place and finds a tensor that begins before its predecessor ends: INVALID_ARGUMENT
// naming both. O(n log n).
Status CheckDisjoint(std::vector<Extent>* extents);

}  // namespace pergola::formats
