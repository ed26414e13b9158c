#include "service/embedding_format.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace pergola::service {

void FormatFloats(std::span<const float> row, bool normalise, std::span<float> out) {
  PERGOLA_DCHECK(out.size() <= row.size());
  std::copy_n(row.begin(), out.size(), out.begin());
  if (!normalise) return;
  double squares = 0.0;
  for (const float value : out) squares += static_cast<double>(value) * value;
  if (squares == 0.0) return;
  const double norm = std::sqrt(squares);
  for (float& value : out) value = static_cast<float>(value / norm);
}

void FormatInt8(std::span<const float> row, Int8Rule rule, std::span<int8_t> out) {
  PERGOLA_DCHECK(out.size() == row.size());
  if (rule == Int8Rule::kTanh) {
    for (size_t i = 0; i < row.size(); ++i) {
      out[i] = static_cast<int8_t>(std::nearbyint(127.0 * std::tanh(static_cast<double>(row[i]))));
    }
    return;
  }
  float top = 0.0f;
  for (const float value : row) top = std::max(top, std::fabs(value));
  if (top == 0.0f) {
    std::fill(out.begin(), out.end(), int8_t{0});
    return;
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const double scaled = std::round(static_cast<double>(row[i]) * 127.0 / top);
    out[i] = static_cast<int8_t>(std::clamp(scaled, -127.0, 127.0));
  }
}

void FormatBits(std::span<const float> row, BitOrder order, std::span<uint8_t> out) {
  PERGOLA_DCHECK(row.size() == out.size() * 8);
  for (size_t byte = 0; byte < out.size(); ++byte) {
    unsigned bits = 0;
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (row[byte * 8 + bit] > 0.0f) {
        bits |= order == BitOrder::kMsbFirst ? 0x80u >> bit : 1u << bit;
      }
    }
    out[byte] = static_cast<uint8_t>(bits);
  }
}

}  // namespace pergola::service
