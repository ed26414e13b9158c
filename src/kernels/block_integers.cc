#include "kernels/block_integers.h"

#include <bit>
#include <cstring>

namespace pergola::kernels {
namespace {

uint8_t Byte(const std::byte* source) { return static_cast<uint8_t>(*source); }
int8_t SignedByte(const std::byte* source) { return static_cast<int8_t>(*source); }

uint32_t Load32(const std::byte* source) {
  uint32_t value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

void Store(int value, int8_t* out) { *out = static_cast<int8_t>(value); }

// A block of 32 values of one step; `offset` is null where nothing is added.
void BeginBlock(const std::byte* step, const std::byte* offset, BlockIntegers* out) {
  out->group = 32;
  out->has_offset = offset != nullptr;
  out->step[0] = LoadF16(step);
  if (offset != nullptr) out->offset[0] = LoadF16(offset);
}

// 16 bytes: values 0..15 in the low nibbles, 16..31 in the high ones.
void ReadNibbles(const std::byte* packed, int lowered_by, int8_t* out) {
  for (int i = 0; i < 16; ++i) {
    Store((Byte(packed + i) & 15) - lowered_by, out + i);
    Store((Byte(packed + i) >> 4) - lowered_by, out + i + 16);
  }
}

// u32: bit i is the fifth bit of value i; nibbles as above.
void ReadFiveBits(const std::byte* source, int lowered_by, int8_t* out) {
  const uint32_t high = Load32(source);
  ReadNibbles(source + 4, 0, out);
  for (int i = 0; i < 32; ++i) {
    Store((out[i] | static_cast<int>((high >> i) & 1) << 4) - lowered_by, out + i);
  }
}

// f16 scale; nibbles + 8.
void BlockQ4_0(const std::byte* block, BlockIntegers* out) {
  BeginBlock(block, nullptr, out);
  ReadNibbles(block + 2, 8, out->value);
}

// f16 scale, f16 minimum; nibbles.
void BlockQ4_1(const std::byte* block, BlockIntegers* out) {
  BeginBlock(block, block + 2, out);
  ReadNibbles(block + 4, 0, out->value);
}

// f16 scale; five bits + 16.
void BlockQ5_0(const std::byte* block, BlockIntegers* out) {
  BeginBlock(block, nullptr, out);
  ReadFiveBits(block + 2, 16, out->value);
}

// f16 scale, f16 minimum; five bits.
void BlockQ5_1(const std::byte* block, BlockIntegers* out) {
  BeginBlock(block, block + 2, out);
  ReadFiveBits(block + 4, 0, out->value);
}

// f16 scale; 32 i8.
void BlockQ8_0(const std::byte* block, BlockIntegers* out) {
  BeginBlock(block, nullptr, out);
  std::memcpy(out->value, block + 2, 32);
}

// f16 scale; a nibble picks from a table that is finer around 0.
void BlockIQ4_NL(const std::byte* block, BlockIntegers* out) {
  constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
  BeginBlock(block, nullptr, out);
  ReadNibbles(block + 2, 0, out->value);
  for (int i = 0; i < 32; ++i) out->value[i] = kValues[out->value[i]];
}

// 64 bytes: byte j of a group of 32 holds two bits each of values j, j + 32, j + 64, j + 96 of its
// 128.
int TwoBits(const std::byte* quants, int i) {
  return (Byte(quants + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3;
}

// 16 bytes: scale (low nibble) and minimum (high) of 16 values each; 64 bytes of 2-bit values; f16
// scale of the scales, f16 scale of the minimums.
void BlockQ2_K(const std::byte* block, BlockIntegers* out) {
  out->group = 16;
  out->has_offset = true;
  const float scale = LoadF16(block + 80);
  const float min_scale = LoadF16(block + 82);
  for (int i = 0; i < 16; ++i) {
    const int scales = Byte(block + i);
    out->step[i] = scale * static_cast<float>(scales & 15);
    out->offset[i] = -(min_scale * static_cast<float>(scales >> 4));
  }
  for (int i = 0; i < 256; ++i) Store(TwoBits(block + 16, i), out->value + i);
}

// 32 bytes: bit i / 32 of byte i % 32 says that value i is not lowered by 4; 64 bytes of 2-bit
// values; 12 bytes: 16 scales of 6 bits, offset 32; f16 scale of the scales.
void BlockQ3_K(const std::byte* block, BlockIntegers* out) {
  out->group = 16;
  out->has_offset = false;
  const std::byte* scales = block + 96;
  const float scale = LoadF16(block + 108);
  for (int i = 0; i < 16; ++i) {
    const int low = (Byte(scales + i % 8) >> (i / 8 * 4)) & 15;
    const int high = (Byte(scales + 8 + i % 4) >> (i / 4 * 2)) & 3;
    out->step[i] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int is_high = (Byte(block + i % 32) >> (i / 32)) & 1;
    Store(TwoBits(block + 32, i) - (is_high ? 0 : 4), out->value + i);
  }
}

// Steps and minimums of the 8 groups of 32 values of Q4_K and Q5_K: f16 scale of the steps, f16
// scale of the minimums, then 12 bytes with 6 bits for each.
void ReadGroupScales(const std::byte* block, BlockIntegers* out) {
  out->group = 32;
  out->has_offset = true;
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
    out->step[group] = scale * static_cast<float>(step_bits);
    out->offset[group] = -(min_scale * static_cast<float>(min_bits));
  }
}

// 128 bytes: byte j of a group holds values j (low nibble) and j + group of its 2 * group.
int NibbleOfGroup(const std::byte* quants, int group, int i) {
  return (Byte(quants + i / (2 * group) * group + i % group) >> (i / group % 2 * 4)) & 15;
}

// Group scales; nibbles.
void BlockQ4_K(const std::byte* block, BlockIntegers* out) {
  ReadGroupScales(block, out);
  for (int i = 0; i < 256; ++i) Store(NibbleOfGroup(block + 16, 32, i), out->value + i);
}

// Group scales; 32 bytes: bit i / 32 of byte i % 32 is the fifth bit of value i; nibbles.
void BlockQ5_K(const std::byte* block, BlockIntegers* out) {
  ReadGroupScales(block, out);
  for (int i = 0; i < 256; ++i) {
    const int fifth = ((Byte(block + 16 + i % 32) >> (i / 32)) & 1) << 4;
    Store(NibbleOfGroup(block + 48, 32, i) | fifth, out->value + i);
  }
}

// 128 bytes of low nibbles, of groups of 64; 64 bytes of high bit pairs as Q2_K; 16 i8 scales of 16
// values each; f16 scale of the scales.
void BlockQ6_K(const std::byte* block, BlockIntegers* out) {
  out->group = 16;
  out->has_offset = false;
  const float scale = LoadF16(block + 208);
  for (int i = 0; i < 16; ++i) {
    out->step[i] = scale * static_cast<float>(SignedByte(block + 192 + i));
  }
  for (int i = 0; i < 256; ++i) {
    const int low = NibbleOfGroup(block, 64, i);
    Store((low | (TwoBits(block + 128, i) << 4)) - 32, out->value + i);
  }
}

}  // namespace

float LoadF16(const std::byte* source) {
  uint16_t half;
  std::memcpy(&half, source, sizeof(half));
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

void DecodeBlock(DType dtype, const std::byte* block, BlockIntegers* out) {
  switch (dtype) {
    case DType::kQ4_0:
      return BlockQ4_0(block, out);
    case DType::kQ4_1:
      return BlockQ4_1(block, out);
    case DType::kQ5_0:
      return BlockQ5_0(block, out);
    case DType::kQ5_1:
      return BlockQ5_1(block, out);
    case DType::kQ8_0:
      return BlockQ8_0(block, out);
    case DType::kQ2_K:
      return BlockQ2_K(block, out);
    case DType::kQ3_K:
      return BlockQ3_K(block, out);
    case DType::kQ4_K:
      return BlockQ4_K(block, out);
    case DType::kQ5_K:
      return BlockQ5_K(block, out);
    case DType::kQ6_K:
      return BlockQ6_K(block, out);
    case DType::kIQ4_NL:
      return BlockIQ4_NL(block, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI32:
      break;
  }
}

}  // namespace pergola::kernels
