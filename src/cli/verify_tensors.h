// Reads every value of a checkpoint and reports what cannot be computed with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor_source.h"

namespace pergola::cli {

// A tensor with NaN or infinite values; in a quantised type that comes from a scale that is not
// finite.
struct NonFiniteTensor {
  std::string name;
  uint64_t file_offset;
  uint32_t file_index;
  int64_t count;        // values that are not finite
  int64_t first_index;  // the first of them, row-major
};

// In the order of `source.tensors()`; empty when all is well. Reads all bytes, one core, about 1
// GB/s.
std::vector<NonFiniteTensor> FindNonFinite(const formats::TensorSource& source);

}  // namespace pergola::cli
