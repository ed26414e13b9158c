// From a full-width row to what a client asked for: fewer dimensions, unit length, other number
// types. Pure functions; the same bits on every route, in the CLI and in the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::service {

enum class NumberType { kFloat, kInt8, kUint8, kBinary, kUbinary, kBinaryLsb };

// Copies the first out.size() values of `row` (out.size() <= row.size()) and, if `normalise`,
// divides by their L2 norm (sum in double, in order; a zero vector stays zero).
void FormatFloats(std::span<const float> row, bool normalise, std::span<float> out);

// How a float becomes an int8: as a share of the row's largest, or by the model's own rule.
enum class Int8Rule {
  kLargest,  // round(clamp(x * 127 / max|x|))
  kTanh,     // clamp(round(127 * tanh x), -128, 127), of the values before unit length (pplx-embed)
};

// Ties away from zero for kLargest, to even for kTanh (as the reference rounds); uint8 = int8 +
// 128.
void FormatInt8(std::span<const float> row, Int8Rule rule, std::span<int8_t> out);

// Packs bits (x > 0), 8 per byte; row.size() % 8 == 0. ubinary: first value in the highest bit;
// kBinaryLsb: in the lowest. binary = ubinary - 128.
enum class BitOrder { kMsbFirst, kLsbFirst };
void FormatBits(std::span<const float> row, BitOrder order, std::span<uint8_t> out);

}  // namespace pergola::service
