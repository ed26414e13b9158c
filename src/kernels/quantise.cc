#include "kernels/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/check.h"

namespace pergola::kernels {
namespace {

constexpr int64_t kBlock = 32;

// Finite f32 to IEEE half, nearest even.
uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::min(std::abs(value), 65504.0f);
  if (magnitude < 0x1p-14f) {
    // Subnormal or zero: multiples of 2^-24. Adding 1.5 * 2^23 rounds to a whole number.
    const float steps = magnitude * 0x1p24f + 12582912.0f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(steps) & 0x7FF));
  }
  uint32_t wide = std::bit_cast<uint32_t>(magnitude) - (112u << 23);
  wide += 0xFFF + ((wide >> 13) & 1);
  return static_cast<uint16_t>(sign | (wide >> 13));
}

uint16_t F32ToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

void Store16(uint16_t value, std::byte* out) { std::memcpy(out, &value, sizeof(value)); }

// f16 scale, 32 signed bytes.
void BlockQ8_0(const float* values, std::byte* out) {
  float largest = 0;
  for (int64_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(values[i]));
  const float scale = largest / 127.0f;
  const float inverse = scale == 0 ? 0 : 1.0f / scale;
  Store16(F32ToF16(scale), out);
  for (int64_t i = 0; i < kBlock; ++i) {
    // roundf: halves away from zero, as the reference does it.
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(values[i] * inverse)));
  }
}

// f16 scale, 16 bytes: values 0..15 in the low nibbles, 16..31 in the high ones, plus 8.
void BlockQ4_0(const float* values, std::byte* out) {
  float largest = 0;  // in magnitude, with its sign
  for (int64_t i = 0; i < kBlock; ++i) {
    if (std::abs(values[i]) > std::abs(largest)) largest = values[i];
  }
  const float scale = largest / -8.0f;
  const float inverse = scale == 0 ? 0 : 1.0f / scale;
  Store16(F32ToF16(scale), out);
  const auto nibble = [&](float value) {
    return static_cast<std::byte>(std::min(15, static_cast<int>(value * inverse + 8.5f)));
  };
  for (int64_t i = 0; i < kBlock / 2; ++i) {
    out[2 + i] = nibble(values[i]) | (nibble(values[i + kBlock / 2]) << 4);
  }
}

}  // namespace

bool CanQuantise(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kQ8_0 || dtype == DType::kQ4_0;
}

void QuantiseRow(DType dtype, const float* values, int64_t elements, std::byte* out) {
  PERGOLA_DCHECK(CanQuantise(dtype) && elements % BlockElements(dtype) == 0);
  const int64_t step = BlockElements(dtype);
  const int64_t bytes = BlockBytes(dtype);
  for (int64_t i = 0; i < elements; i += step, out += bytes) {
    switch (dtype) {
      case DType::kF16:
        Store16(F32ToF16(values[i]), out);
        break;
      case DType::kBF16:
        Store16(F32ToBF16(values[i]), out);
        break;
      case DType::kQ8_0:
        BlockQ8_0(values + i, out);
        break;
      case DType::kQ4_0:
        BlockQ4_0(values + i, out);
        break;
      default:
        std::memcpy(out, values + i, sizeof(float));
    }
  }
}

}  // namespace pergola::kernels
