// Operations without a sum over columns: a tail runs the same vector code as the rest, masked, so
// the place where a row is cut never shows.
#pragma once

#include <cstdint>

namespace {

void ScaleRow(const float* x, float scale, bool accumulate, int64_t count, float* y) {
  const VecF factor = Set(scale);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i;
    VecF value = LoadUpTo(x + i, left) * factor;
    if (accumulate) value = LoadUpTo(y + i, left) + value;
    StoreUpTo(y + i, value, left);
  }
}

void AddRow(const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i;
    StoreUpTo(y + i, LoadUpTo(y + i, left) + LoadUpTo(x + i, left), left);
  }
}

template <Epilogue kActivation>
void GateRow(const float* up, int64_t count, float* gate) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i;
    const VecF value = Activate<kActivation>(LoadUpTo(gate + i, left));
    StoreUpTo(gate + i, value * LoadUpTo(up + i, left), left);
  }
}

void GatedRow(Epilogue activation, const float* up, int64_t count, float* gate) {
  switch (activation) {
    case Epilogue::kGeluErf:
      return GateRow<Epilogue::kGeluErf>(up, count, gate);
    case Epilogue::kGeluTanh:
      return GateRow<Epilogue::kGeluTanh>(up, count, gate);
    case Epilogue::kSilu:
      return GateRow<Epilogue::kSilu>(up, count, gate);
    case Epilogue::kRelu:
      return GateRow<Epilogue::kRelu>(up, count, gate);
    case Epilogue::kTanh:
      return GateRow<Epilogue::kTanh>(up, count, gate);
    case Epilogue::kNone:
    case Epilogue::kAdd:
      return GateRow<Epilogue::kNone>(up, count, gate);
  }
}

void RopeRow(const float* cos_sin, int64_t head_width, int64_t count, float* x) {
  const int64_t half = head_width / 2;
  for (int64_t begin = 0; begin < count; begin += head_width) {
    float* low = x + begin;
    float* high = low + half;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t left = half - i;
      const VecF a = LoadUpTo(low + i, left);
      const VecF b = LoadUpTo(high + i, left);
      const VecF cosine = LoadUpTo(cos_sin + i, left);
      const VecF sine = LoadUpTo(cos_sin + half + i, left);
      StoreUpTo(low + i, MulAdd(-b, sine, a * cosine), left);
      StoreUpTo(high + i, MulAdd(b, cosine, a * sine), left);
    }
  }
}

void MeanRows(const float* x, int64_t x_stride, int64_t rows, int64_t count, float* y) {
  const VecF divisor = Set(static_cast<float>(rows));
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i;
    VecF sum = {};
    for (int64_t row = 0; row < rows; ++row) sum += LoadUpTo(x + row * x_stride + i, left);
    StoreUpTo(y + i, sum / divisor, left);
  }
}

[[maybe_unused]] void RoundToBF16(const float* x, int64_t count, uint16_t* rounded) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) StoreBF16(Load(x + i), rounded + i);
  if (i == count) return;
  uint16_t last[kLanes];
  StoreBF16(LoadUpTo(x + i, count - i), last);  // zeros beyond
  for (int64_t lane = 0; lane < count - i + count % 2; ++lane) rounded[i + lane] = last[lane];
}

}  // namespace
