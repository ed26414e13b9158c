// Element types of tensors, and how many bytes a row of them takes.
//
//   DTypeName(DType::kQ4_0) == "Q4_0";  RowBytes(DType::kQ4_0, 64) == 36;
//
// A quantised type stores blocks: BlockElements() values in BlockBytes() bytes, in the layout of
// docs/formats/gguf.md. Conversion of values lives in kernels/quant, not here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pergola {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kI8,
  kI32,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
};

inline constexpr int kNumDTypes = 16;

// Name as in checkpoints: "F32", "BF16", "Q4_K".
std::string_view DTypeName(DType dtype);

// Values per block; 1 for plain types.
int64_t BlockElements(DType dtype);

// Bytes per block; the element size for plain types.
int64_t BlockBytes(DType dtype);

// Bytes of a row of `elements` values; `elements` is a multiple of BlockElements() and the result
// fits in 63 bits (the caller's promise: readers check before they call).
inline int64_t RowBytes(DType dtype, int64_t elements) {
  return elements / BlockElements(dtype) * BlockBytes(dtype);
}

inline bool IsQuantised(DType dtype) { return BlockElements(dtype) > 1; }

}  // namespace pergola
