#include "kernels/dequantise.h"

#include <algorithm>
#include <bit>
#include <cstring>

// The layouts are described in docs/formats/gguf.md. Values are computed in f32 in the order that
// the reference uses (scale times integer, then the offset), without fused operations, so that the
// bits agree.

namespace pergola::kernels {
namespace {

uint8_t Byte(const std::byte* source) { return static_cast<uint8_t>(*source); }
int8_t SignedByte(const std::byte* source) { return static_cast<int8_t>(*source); }

uint16_t Load16(const std::byte* source) {
  uint16_t value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

uint32_t Load32(const std::byte* source) {
  uint32_t value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

// IEEE half to single: exact; a NaN keeps its payload and becomes quiet, as F16C does it.
float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t mantissa = half & 0x3FF;
  if (exponent == 0x1F) {
    const uint32_t quiet = mantissa == 0 ? 0 : 0x400000;
    return std::bit_cast<float>(sign | 0x7F800000 | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // Zero or subnormal, mantissa * 2^-24: exact.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

float LoadF16(const std::byte* source) { return F16ToF32(Load16(source)); }

using BlockFunction = void (*)(const std::byte* block, float* out);

// f16 scale; 16 bytes: values 0..15 in the low nibbles, 16..31 in the high ones.
void BlockQ4_0(const std::byte* block, float* out) {
  const float scale = LoadF16(block);
  for (int i = 0; i < 16; ++i) {
    const int packed = Byte(block + 2 + i);
    out[i] = scale * static_cast<float>((packed & 15) - 8);
    out[i + 16] = scale * static_cast<float>((packed >> 4) - 8);
  }
}

// f16 scale, f16 minimum; nibbles as Q4_0, unsigned.
void BlockQ4_1(const std::byte* block, float* out) {
  const float scale = LoadF16(block);
  const float minimum = LoadF16(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int packed = Byte(block + 4 + i);
    out[i] = scale * static_cast<float>(packed & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(packed >> 4) + minimum;
  }
}

// f16 scale; u32: bit i is the fifth bit of value i; nibbles as Q4_0.
void BlockQ5_0(const std::byte* block, float* out) {
  const float scale = LoadF16(block);
  const uint32_t high = Load32(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int packed = Byte(block + 6 + i % 16);
    const int low = i < 16 ? packed & 15 : packed >> 4;
    const int fifth = static_cast<int>((high >> i) & 1) << 4;
    out[i] = scale * static_cast<float>((low | fifth) - 16);
  }
}

// f16 scale, f16 minimum, then as Q5_0, unsigned.
void BlockQ5_1(const std::byte* block, float* out) {
  const float scale = LoadF16(block);
  const float minimum = LoadF16(block + 2);
  const uint32_t high = Load32(block + 4);
  for (int i = 0; i < 32; ++i) {
    const int packed = Byte(block + 8 + i % 16);
    const int low = i < 16 ? packed & 15 : packed >> 4;
    const int fifth = static_cast<int>((high >> i) & 1) << 4;
    out[i] = scale * static_cast<float>(low | fifth) + minimum;
  }
}

// f16 scale; 32 i8.
void BlockQ8_0(const std::byte* block, float* out) {
  const float scale = LoadF16(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(SignedByte(block + 2 + i));
}

// 16 bytes: scale (low nibble) and minimum (high) of 16 values each; 64 bytes of 2-bit values;
// f16 scale of the scales, f16 scale of the minimums. Byte j of a group of 32 holds values j, j +
// 32, j + 64, j + 96 of its 128.
void BlockQ2_K(const std::byte* block, float* out) {
  const std::byte* quants = block + 16;
  const float scale = LoadF16(block + 80);
  const float min_scale = LoadF16(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int scales = Byte(block + i / 16);
    const int quant = (Byte(quants + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3;
    const float step = scale * static_cast<float>(scales & 15);
    const float minimum = min_scale * static_cast<float>(scales >> 4);
    out[i] = step * static_cast<float>(quant) - minimum;
  }
}

// 32 bytes: bit i / 32 of byte i % 32 says that value i is not lowered by 4; 64 bytes of 2-bit
// values as Q2_K; 12 bytes: 16 scales of 6 bits, offset 32; f16 scale of the scales.
void BlockQ3_K(const std::byte* block, float* out) {
  const std::byte* quants = block + 32;
  const std::byte* scales = block + 96;
  const float scale = LoadF16(block + 108);
  float steps[16];
  for (int i = 0; i < 16; ++i) {
    const int low = (Byte(scales + i % 8) >> (i / 8 * 4)) & 15;
    const int high = (Byte(scales + 8 + i % 4) >> (i / 4 * 2)) & 3;
    steps[i] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int low = (Byte(quants + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3;
    const int is_high = (Byte(block + i % 32) >> (i / 32)) & 1;
    out[i] = steps[i / 16] * static_cast<float>(low - (is_high ? 0 : 4));
  }
}

// Steps and minimums of the 8 groups of 32 values of Q4_K and Q5_K: f16 scale of the steps, f16
// scale of the minimums, then 12 bytes with 6 bits for each.
struct GroupScales {
  float step[8];
  float minimum[8];

  explicit GroupScales(const std::byte* block) {
    const float scale = LoadF16(block);
    const float min_scale = LoadF16(block + 2);
    const std::byte* packed = block + 4;
    for (int group = 0; group < 8; ++group) {
      int step_bits, min_bits;
      if (group < 4) {
        step_bits = Byte(packed + group) & 63;
        min_bits = Byte(packed + 4 + group) & 63;
      } else {
        const int low = Byte(packed + 4 + group);
        step_bits = (low & 15) | ((Byte(packed + group - 4) >> 6) << 4);
        min_bits = (low >> 4) | ((Byte(packed + group) >> 6) << 4);
      }
      step[group] = scale * static_cast<float>(step_bits);
      minimum[group] = min_scale * static_cast<float>(min_bits);
    }
  }
};

// GroupScales; 128 bytes: byte j of a group of 32 holds values j (low nibble) and j + 32 of its 64.
void BlockQ4_K(const std::byte* block, float* out) {
  const GroupScales scales(block);
  const std::byte* quants = block + 16;
  for (int i = 0; i < 256; ++i) {
    const int group = i / 32;
    const int quant = (Byte(quants + i / 64 * 32 + i % 32) >> (group % 2 * 4)) & 15;
    out[i] = scales.step[group] * static_cast<float>(quant) - scales.minimum[group];
  }
}

// GroupScales; 32 bytes: bit i / 32 of byte i % 32 is the fifth bit of value i; 128 bytes as Q4_K.
void BlockQ5_K(const std::byte* block, float* out) {
  const GroupScales scales(block);
  const std::byte* high = block + 16;
  const std::byte* quants = block + 48;
  for (int i = 0; i < 256; ++i) {
    const int group = i / 32;
    const int low = (Byte(quants + i / 64 * 32 + i % 32) >> (group % 2 * 4)) & 15;
    const int fifth = ((Byte(high + i % 32) >> group) & 1) << 4;
    out[i] = scales.step[group] * static_cast<float>(low | fifth) - scales.minimum[group];
  }
}

// 128 bytes of low nibbles: byte j of a group of 64 holds values j and j + 64 of its 128; 64 bytes
// of high bit pairs as Q2_K; 16 i8 scales of 16 values each; f16 scale of the scales.
void BlockQ6_K(const std::byte* block, float* out) {
  const std::byte* high = block + 128;
  const std::byte* scales = block + 192;
  const float scale = LoadF16(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int low = (Byte(block + i / 128 * 64 + i % 64) >> (i / 64 % 2 * 4)) & 15;
    const int pair = (Byte(high + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3;
    const float step = scale * static_cast<float>(SignedByte(scales + i / 16));
    out[i] = step * static_cast<float>((low | (pair << 4)) - 32);
  }
}

// As Q4_0, but a nibble picks from a table that is finer around 0.
void BlockIQ4_NL(const std::byte* block, float* out) {
  constexpr float kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
  const float scale = LoadF16(block);
  for (int i = 0; i < 16; ++i) {
    const int packed = Byte(block + 2 + i);
    out[i] = scale * kValues[packed & 15];
    out[i + 16] = scale * kValues[packed >> 4];
  }
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
  for (int64_t i = 0; i < elements; ++i) out[i] = static_cast<float>(SignedByte(source + i));
}

void RowI32(const std::byte* source, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) {
    out[i] = static_cast<float>(static_cast<int32_t>(Load32(source + 4 * i)));
  }
}

BlockFunction FunctionOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return BlockQ4_0;
    case DType::kQ4_1:
      return BlockQ4_1;
    case DType::kQ5_0:
      return BlockQ5_0;
    case DType::kQ5_1:
      return BlockQ5_1;
    case DType::kQ8_0:
      return BlockQ8_0;
    case DType::kQ2_K:
      return BlockQ2_K;
    case DType::kQ3_K:
      return BlockQ3_K;
    case DType::kQ4_K:
      return BlockQ4_K;
    case DType::kQ5_K:
      return BlockQ5_K;
    case DType::kQ6_K:
      return BlockQ6_K;
    case DType::kIQ4_NL:
      return BlockIQ4_NL;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI32:
      break;
  }
  return nullptr;
}

}  // namespace

void DequantiseRow(DType dtype, const std::byte* source, int64_t elements, float* out) {
  if (dtype == DType::kF32) return RowF32(source, elements, out);
  if (dtype == DType::kF16) return RowF16(source, elements, out);
  if (dtype == DType::kBF16) return RowBF16(source, elements, out);
  if (dtype == DType::kI8) return RowI8(source, elements, out);
  if (dtype == DType::kI32) return RowI32(source, elements, out);
  const BlockFunction function = FunctionOf(dtype);
  const int64_t block_bytes = BlockBytes(dtype);
  const int64_t block_elements = BlockElements(dtype);
  for (int64_t i = 0; i < elements; i += block_elements, source += block_bytes) {
    function(source, out + i);
  }
}

}  // namespace pergola::kernels
