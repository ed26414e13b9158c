#include "kernels/cpu/panel_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "core/check.h"
#include "kernels/block_integers.h"
#include "kernels/cpu/rotation.h"
#include "kernels/dequantise.h"

namespace pergola::kernels::cpu {
namespace {

// Weights worth more than one thread: packing takes 1 ns each, starting a thread some 20 us.
constexpr int64_t kParallelElements = 1 << 18;

// out[k][column] = row[k], for one column of a panel. T is the stored value.
template <typename T>
void ScatterColumn(const T* row, int64_t inputs, int64_t column, T* panel) {
  for (int64_t k = 0; k < inputs; ++k) panel[k * kPanelCols + column] = row[k];
}

// Transposes in strips of 16 inputs, so that both sides stay in the first-level cache.
template <typename T>
void PackPlainPanel(const TensorView& weight, int64_t first_output, int64_t columns, T* panel) {
  constexpr int64_t kStrip = 16;
  const int64_t inputs = weight.cols();
  T strip[kStrip];
  for (int64_t k = 0; k < inputs; k += kStrip) {
    const int64_t count = std::min(kStrip, inputs - k);
    for (int64_t column = 0; column < columns; ++column) {
      std::memcpy(strip, weight.row(first_output + column) + k * static_cast<int64_t>(sizeof(T)),
                  static_cast<size_t>(count) * sizeof(T));
      ScatterColumn(strip, count, column, panel + k * kPanelCols);
    }
  }
}

void PackWidenedPanel(const TensorView& weight, int64_t first_output, int64_t columns,
                      float* panel) {
  const int64_t inputs = weight.cols();
  std::vector<float> row(static_cast<size_t>(inputs));
  for (int64_t column = 0; column < columns; ++column) {
    DequantiseRow(weight.dtype, weight.row(first_output + column), inputs, row.data());
    ScatterColumn(row.data(), inputs, column, panel);
  }
}

// The checkpoint's blocks (docs/formats/gguf.md): f16 scale, then the values.
constexpr int64_t kQ4BlockBytes = 18;
constexpr int64_t kPanelBlockValues = kBlock * kPanelCols;

// One column's 32 values, in pairs.
void PackPairs(const int8_t* values, int64_t column, std::byte* block) {
  for (int64_t k = 0; k < kBlock; ++k) {
    block[(k / 2 * kPanelCols + column) * 2 + k % 2] = static_cast<std::byte>(values[k]);
  }
}

// Types whose block begins with its only scale: Q8_0, Q5_0, IQ4_NL.
void PackQ8Panel(const TensorView& weight, int64_t first_output, int64_t columns,
                 std::byte* panel) {
  const int64_t blocks = weight.cols() / kBlock;
  const int64_t block_bytes = BlockBytes(weight.dtype);
  BlockIntegers integers;
  for (int64_t block = 0; block < blocks; ++block) {
    std::byte* scales = panel + kPanelBlockValues;
    for (int64_t column = 0; column < columns; ++column) {
      const std::byte* source = weight.row(first_output + column) + block * block_bytes;
      std::memcpy(scales + column * 2, source, 2);
      DecodeBlock(weight.dtype, source, &integers);
      PackPairs(integers.value, column, panel);
    }
    panel = scales + kPanelCols * 2;
  }
}

// One column's 32 values as nibbles in the order of kQ4Blocks.
void PackNibbles(const int8_t* values, int64_t column, std::byte* block) {
  for (int64_t eight = 0; eight < kBlock / 8; ++eight, values += 8) {
    uint32_t word = 0;
    for (int i = 0; i < 8; ++i) {
      word |= (static_cast<uint32_t>(values[i]) & 15) << (i % 2 * 16 + i / 2 * 4);
    }
    std::memcpy(block + (eight * kPanelCols + column) * 4, &word, sizeof(word));
  }
}

void PackGroupsPanel(const TensorView& weight, PanelFormat format, int64_t first_output,
                     int64_t columns, std::byte* panel) {
  const bool nibbles = format == PanelFormat::kOffsetNibbles;
  const int64_t target_bytes = PanelBytes(format, kBlock);
  const int64_t step = BlockElements(weight.dtype);
  BlockIntegers integers;
  for (int64_t column = 0; column < columns; ++column) {
    const std::byte* source = weight.row(first_output + column);
    std::byte* block = panel;
    for (int64_t k = 0; k < weight.cols(); k += kBlock, block += target_bytes) {
      if (k % step == 0) DecodeBlock(weight.dtype, source + RowBytes(weight.dtype, k), &integers);
      (nibbles ? PackNibbles : PackPairs)(integers.value + k % step, column, block);
      const int64_t group = k % step / integers.group;
      float* scales = reinterpret_cast<float*>(block + target_bytes) - 2 * kPanelCols;
      scales[column] = integers.step[group];
      scales[kPanelCols + column] =
          integers.has_offset ? integers.offset[group] : integers.step[group + 1];
    }
  }
}

void PackQ4Panel(const TensorView& weight, int64_t first_output, int64_t columns,
                 std::byte* panel) {
  const int64_t blocks = weight.cols() / kBlock;
  BlockIntegers integers;
  for (int64_t block = 0; block < blocks; ++block) {
    std::byte* scales = panel + kPanelBlockValues / 2;
    for (int64_t column = 0; column < columns; ++column) {
      const std::byte* source = weight.row(first_output + column) + block * kQ4BlockBytes;
      std::memcpy(scales + column * 2, source, 2);
      DecodeBlock(weight.dtype, source, &integers);
      PackNibbles(integers.value, column, panel);
    }
    panel = scales + kPanelCols * 2;
  }
}

void PackQ4FoursPanel(const TensorView& weight, int64_t first_output, int64_t columns,
                      std::byte* panel) {
  const int64_t blocks = weight.cols() / kBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    std::byte* scales = panel + kPanelBlockValues / 2;
    for (int64_t column = 0; column < columns; ++column) {
      // The checkpoint's byte i holds value i (low) and value 16 + i (high), as the panel's do.
      const std::byte* source = weight.row(first_output + column) + block * kQ4BlockBytes;
      std::memcpy(scales + column * 2, source, 2);
      for (int64_t four = 0; four < kBlock / 8; ++four) {
        std::memcpy(panel + (four * kPanelCols + column) * 4, source + 2 + four * 4, 4);
      }
    }
    panel = scales + kPanelCols * 2;
  }
}

void PackPairsPanel(const TensorView& weight, int64_t first_output, int64_t columns,
                    uint16_t* panel) {
  const int64_t inputs = weight.cols();
  std::memset(panel, 0, static_cast<size_t>(PanelBytes(PanelFormat::kBF16Pairs, inputs)));
  for (int64_t column = 0; column < columns; ++column) {
    const std::byte* row = weight.row(first_output + column);
    for (int64_t k = 0; k < inputs; ++k) {
      std::memcpy(panel + (k / 2 * kPanelCols + column) * 2 + k % 2, row + k * 2, 2);
    }
  }
}

constexpr int64_t kScaledBlockBytes =
    kScaledBlock * kPanelCols + kPanelCols * static_cast<int64_t>(sizeof(float));

// One column's block of rotated values to bytes + 128 and a scale. `block` is the panel's.
void PackScaledBlock(const float* values, int64_t column, std::byte* block) {
  float largest = 0;
  for (int64_t k = 0; k < kScaledBlock; ++k) largest = std::max(largest, std::abs(values[k]));
  // As for activations; false of what is not a number as well.
  const bool usable = largest >= 1e-30f && largest <= std::numeric_limits<float>::max();
  const float inverse = usable ? 127.0f / largest : 0;
  if (!usable) largest = 0;
  for (int64_t k = 0; k < kScaledBlock; ++k) {
    const int rounded = usable ? static_cast<int>(std::nearbyint(values[k] * inverse)) : 0;
    block[(k / 4 * kPanelCols + column) * 4 + k % 4] = static_cast<std::byte>(rounded + 128);
  }
  const float scale = largest / 127.0f / static_cast<float>(kRotatedBlock);
  std::memcpy(block + kScaledBlock * kPanelCols + column * 4, &scale, sizeof(scale));
}

void PackRotatedPanel(const TensorView& weight, int64_t first_output, int64_t columns,
                      std::byte* panel) {
  const int64_t inputs = weight.cols();
  std::vector<float> row(static_cast<size_t>(inputs));
  for (int64_t column = 0; column < columns; ++column) {
    DequantiseRow(weight.dtype, weight.row(first_output + column), inputs, row.data());
    for (int64_t k = 0; k < inputs; k += kRotatedBlock) RotateBlock(row.data() + k);
    for (int64_t k = 0; k < inputs; k += kScaledBlock) {
      PackScaledBlock(row.data() + k, column, panel + k / kScaledBlock * kScaledBlockBytes);
    }
  }
}

}  // namespace

std::optional<PanelFormat> RowsFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return PanelFormat::kRowsF32;
    case DType::kF16:
      return PanelFormat::kRowsF16;
    case DType::kBF16:
      return PanelFormat::kRowsBF16;
    case DType::kQ8_0:
      return PanelFormat::kRowsQ8;
    default:
      return std::nullopt;
  }
}

namespace {

// Null where there is none.
template <typename Function>
Function FunctionOfRows(const Function (&functions)[kNumRowsFormats], DType dtype) {
  const auto format = RowsFormatOf(dtype);
  if (!format) return nullptr;
  return functions[static_cast<int>(*format) - static_cast<int>(PanelFormat::kRowsF32)];
}

}  // namespace

RowDecoder RowDecoderOf(const KernelTable& table, DType dtype) {
  return FunctionOfRows(table.decode_row, dtype);
}

RowSender RowSenderOf(const KernelTable& table, DType dtype) {
  return FunctionOfRows(table.send_row, dtype);
}

namespace {

// The format in which the integers of `dtype` are multiplied as they are; f32 where there is none.
PanelFormat IntegerFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return PanelFormat::kQ4Blocks;
    case DType::kQ8_0:
    case DType::kQ5_0:
    case DType::kIQ4_NL:
      return PanelFormat::kQ8Blocks;
    case DType::kQ3_K:
    case DType::kQ6_K:
      return PanelFormat::kSixteens;
    case DType::kQ5_1:
    case DType::kQ5_K:
      return PanelFormat::kOffsetBytes;
    case DType::kQ4_1:
    case DType::kQ4_K:
      return PanelFormat::kOffsetNibbles;
    default:
      return PanelFormat::kF32;
  }
}

}  // namespace

PanelFormat PanelFormatOf(DType stored, int64_t inputs, const LinearOptions& options,
                          const KernelTable& table) {
  if (options.in_place && options.weights == WeightType::kAsIs) {
    if (const auto rows = RowsFormatOf(stored)) return *rows;
  }
  const bool narrow_rows = options.activations == ActivationPrecision::kAuto;
  const auto has = [&](PanelFormat format) {
    return table.linear[static_cast<size_t>(format)] != nullptr;
  };
  const bool plain = stored == DType::kF32 || stored == DType::kF16 || stored == DType::kBF16;
  if (options.weights == WeightType::kInt8 && plain && narrow_rows && inputs % kRotatedBlock == 0 &&
      has(PanelFormat::kRotatedBytes)) {
    return PanelFormat::kRotatedBytes;
  }
  const DType dtype = ComputedType(options.weights, stored, inputs);
  if (dtype == DType::kF16) return PanelFormat::kF16;
  if (dtype == DType::kBF16) {
    return narrow_rows && has(PanelFormat::kBF16Pairs) ? PanelFormat::kBF16Pairs
                                                       : PanelFormat::kBF16;
  }
  const bool in_bytes = options.role != LinearRole::kOther && options.role <= options.narrow_to;
  if (narrow_rows && dtype == DType::kQ4_0 && in_bytes && has(PanelFormat::kQ4Fours)) {
    return PanelFormat::kQ4Fours;
  }
  return narrow_rows ? IntegerFormatOf(dtype) : PanelFormat::kF32;
}

int64_t PanelBytes(PanelFormat format, int64_t inputs) {
  switch (format) {
    case PanelFormat::kF32:
      return inputs * kPanelCols * 4;
    case PanelFormat::kF16:
    case PanelFormat::kBF16:
      return inputs * kPanelCols * 2;
    case PanelFormat::kQ8Blocks:
      return inputs / kBlock * (kPanelBlockValues + kPanelCols * 2);
    case PanelFormat::kBF16Pairs:
      return (inputs + inputs % 2) * kPanelCols * 2;
    case PanelFormat::kQ4Blocks:
    case PanelFormat::kQ4Fours:
      return inputs / kBlock * (kPanelBlockValues / 2 + kPanelCols * 2);
    case PanelFormat::kRotatedBytes:
      return inputs / kScaledBlock * kScaledBlockBytes;
    case PanelFormat::kSixteens:
    case PanelFormat::kOffsetBytes:
      return inputs / kBlock * (kPanelBlockValues + kPanelCols * 2 * 4);
    case PanelFormat::kOffsetNibbles:
      return inputs / kBlock * (kPanelBlockValues / 2 + kPanelCols * 2 * 4);
    case PanelFormat::kRowsF32:
      return inputs * kPanelCols * 4;
    case PanelFormat::kRowsF16:
    case PanelFormat::kRowsBF16:
      return inputs * kPanelCols * 2;
    case PanelFormat::kRowsQ8:
      return inputs / kBlock * BlockBytes(DType::kQ8_0) * kPanelCols;
  }
  return 0;
}

PanelWeight::PanelWeight(TensorView weight, PanelFormat format, int num_threads,
                         ChunkedMemory& memory)
    : outputs_(weight.rows()),
      inputs_(weight.cols()),
      dtype_(format == PanelFormat::kRotatedBytes ? DType::kI8 : weight.dtype),
      format_(format),
      panel_bytes_(PanelBytes(format, weight.cols())),
      panels_(weight.data) {
  if (IsInPlace(format)) return;
  owned_ = memory.Allocate(static_cast<size_t>(num_panels() * panel_bytes_));
  panels_ = owned_.get();
  const int64_t threads =
      outputs_ * inputs_ < kParallelElements ? 1 : std::min<int64_t>(num_threads, num_panels());
  std::vector<std::thread> helpers;
  for (int64_t thread = 1; thread < threads; ++thread) {
    helpers.emplace_back([this, &weight, thread, threads] {
      PackPanels(weight, thread * num_panels() / threads, (thread + 1) * num_panels() / threads);
    });
  }
  PackPanels(weight, 0, num_panels() / threads);
  for (std::thread& helper : helpers) helper.join();
}

void PanelWeight::PackPanels(const TensorView& weight, int64_t panel_begin, int64_t panel_end) {
  for (int64_t index = panel_begin; index < panel_end; ++index) {
    const int64_t first = index * kPanelCols;
    const int64_t columns = std::min(kPanelCols, outputs_ - first);
    std::byte* panel = owned_.get() + index * panel_bytes_;
    // Columns beyond N are computed and thrown away: they must not be garbage that traps or slows.
    if (columns < kPanelCols) std::memset(panel, 0, static_cast<size_t>(panel_bytes_));
    switch (format_) {
      case PanelFormat::kF32:
        if (weight.dtype == DType::kF32) {
          PackPlainPanel(weight, first, columns, reinterpret_cast<float*>(panel));
        } else {
          PackWidenedPanel(weight, first, columns, reinterpret_cast<float*>(panel));
        }
        break;
      case PanelFormat::kF16:
      case PanelFormat::kBF16:
        PackPlainPanel(weight, first, columns, reinterpret_cast<uint16_t*>(panel));
        break;
      case PanelFormat::kQ8Blocks:
        PackQ8Panel(weight, first, columns, panel);
        break;
      case PanelFormat::kQ4Blocks:
        PackQ4Panel(weight, first, columns, panel);
        break;
      case PanelFormat::kQ4Fours:
        PackQ4FoursPanel(weight, first, columns, panel);
        break;
      case PanelFormat::kRotatedBytes:
        PackRotatedPanel(weight, first, columns, panel);
        break;
      case PanelFormat::kSixteens:
      case PanelFormat::kOffsetBytes:
      case PanelFormat::kOffsetNibbles:
        PackGroupsPanel(weight, format_, first, columns, panel);
        break;
      case PanelFormat::kBF16Pairs:
        PackPairsPanel(weight, first, columns, reinterpret_cast<uint16_t*>(panel));
        break;
      case PanelFormat::kRowsF32:
      case PanelFormat::kRowsF16:
      case PanelFormat::kRowsBF16:
      case PanelFormat::kRowsQ8:
        break;  // nothing is packed
    }
  }
}

}  // namespace pergola::kernels::cpu
