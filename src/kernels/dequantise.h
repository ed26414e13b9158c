// Values of a row of any dtype as f32, bit-equal to the reference (Python `gguf`) for quantised
// types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace pergola::kernels {

// Widens `elements` values (whole blocks) at `source` (any alignment) into `out` [elements].
// Scalar, exact; the same code on every ISA.
void DequantiseRow(DType dtype, const std::byte* source, int64_t elements, float* out);

}  // namespace pergola::kernels
