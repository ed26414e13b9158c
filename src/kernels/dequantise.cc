#include "kernels/dequantise.h"

#include <bit>
#include <cstring>

#include "kernels/block_integers.h"

// Values of blocks are computed in f32 in the order that the reference uses (step times integer,
// then the offset), without fused operations, so that the bits agree.

namespace pergola::kernels {
namespace {

uint16_t Load16(const std::byte* source) {
  uint16_t value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

int32_t Load32(const std::byte* source) {
  int32_t value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

void RowF32(const std::byte* source, int64_t elements, float* out) {
  if (elements > 0) std::memcpy(out, source, static_cast<size_t>(elements) * sizeof(float));
}

void RowF16(const std::byte* source, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = LoadF16(source + 2 * i);
}

void RowBF16(const std::byte* source, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(Load16(source + 2 * i)) << 16);
  }
}

void RowI8(const std::byte* source, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(source[i]));
  }
}

void RowI32(const std::byte* source, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = static_cast<float>(Load32(source + 4 * i));
}

void RowBlocks(DType dtype, const std::byte* source, int64_t elements, float* out) {
  const int64_t block_bytes = BlockBytes(dtype);
  const int64_t block_elements = BlockElements(dtype);
  BlockIntegers block;
  for (int64_t i = 0; i < elements; i += block_elements, source += block_bytes) {
    DecodeBlock(dtype, source, &block);
    const int8_t* value = block.value;
    for (int64_t group = 0; group < block_elements / block.group; ++group) {
      const float step = block.step[group];
      for (int k = 0; k < block.group; ++k) out[k] = step * static_cast<float>(value[k]);
      if (block.has_offset) {
        for (int k = 0; k < block.group; ++k) out[k] += block.offset[group];
      }
      out += block.group;
      value += block.group;
    }
  }
}

}  // namespace

void DequantiseRow(DType dtype, const std::byte* source, int64_t elements, float* out) {
  switch (dtype) {
    case DType::kF32:
      return RowF32(source, elements, out);
    case DType::kF16:
      return RowF16(source, elements, out);
    case DType::kBF16:
      return RowBF16(source, elements, out);
    case DType::kI8:
      return RowI8(source, elements, out);
    case DType::kI32:
      return RowI32(source, elements, out);
    default:
      return RowBlocks(dtype, source, elements, out);
  }
}

}  // namespace pergola::kernels
