// Inputs for kernel tests and benchmarks: the same on every machine for the same seed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace pergola::kernels::testing {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  uint32_t Bits() { return static_cast<uint32_t>(engine_()); }
  int64_t Between(int64_t low, int64_t high) { return low + Bits() % (high - low + 1); }
  // In [-1, 1), sum of two uniform values: most are small, as activations are.
  float Value() { return static_cast<float>(Bits() % 4096 + Bits() % 4096) / 4096.0f - 1.0f; }
  std::vector<float> Values(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = Value();
    return values;
  }

 private:
  std::mt19937 engine_;
};

// A matrix with its memory. Columns beyond `cols`, up to the stride, hold a marker that no
// operation may read or change.
class OwnedMatrix {
 public:
  static constexpr float kMarker = -12345.0f;

  OwnedMatrix(int64_t rows, int64_t cols, int64_t stride = 0)
      : values_(static_cast<size_t>(rows * (stride == 0 ? cols : stride)), kMarker),
        view_(values_.data(), rows, cols, stride == 0 ? cols : stride) {}
  OwnedMatrix(const OwnedMatrix& other) : values_(other.values_), view_(other.view_) {
    view_.data = values_.data();
  }
  OwnedMatrix& operator=(const OwnedMatrix&) = delete;

  static OwnedMatrix Of(Random& random, int64_t rows, int64_t cols, int64_t stride = 0) {
    OwnedMatrix matrix(rows, cols, stride);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) matrix.view_.row(row)[col] = random.Value();
    }
    return matrix;
  }
  // A copy of `source` with another stride.
  static OwnedMatrix Copy(ConstF32Matrix source, int64_t stride = 0) {
    OwnedMatrix matrix(source.rows, source.cols, stride);
    for (int64_t row = 0; row < source.rows; ++row) {
      std::memcpy(matrix.view_.row(row), source.row(row),
                  static_cast<size_t>(source.cols) * sizeof(float));
    }
    return matrix;
  }

  F32Matrix view() { return view_; }
  ConstF32Matrix view() const { return view_; }

  bool MarkersIntact() const {
    for (int64_t row = 0; row < view_.rows; ++row) {
      for (int64_t col = view_.cols; col < view_.stride; ++col) {
        if (view_.row(row)[col] != kMarker) return false;
      }
    }
    return true;
  }

 private:
  std::vector<float> values_;
  F32Matrix view_;
};

// A weight [rows, cols] of any linear dtype with finite values of the order of 1 / sqrt(cols).
class OwnedTensor {
 public:
  OwnedTensor(Random& random, DType dtype, int64_t rows, int64_t cols) : dtype_(dtype) {
    view_.dtype = dtype;
    view_.shape = {rows, cols};
    bytes_.resize(static_cast<size_t>(view_.bytes()));
    view_.data = bytes_.data();
    Fill(random);
  }
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;

  const TensorView& view() const { return view_; }

 private:
  // Where a block keeps its f16 scales.
  static std::vector<int64_t> HalfOffsets(DType dtype) {
    switch (dtype) {
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        return {0, 2};
      case DType::kQ2_K:
        return {80, 82};
      case DType::kQ3_K:
        return {108};
      case DType::kQ6_K:
        return {208};
      default:
        return {0};
    }
  }

  void Fill(Random& random) {
    const float spread = 1.0f / std::sqrt(static_cast<float>(view_.cols()));
    const int64_t count = view_.shape.elements();
    if (dtype_ == DType::kF32 || dtype_ == DType::kBF16) {
      for (int64_t i = 0; i < count; ++i) {
        const float value = random.Value() * spread;
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        const uint16_t high = static_cast<uint16_t>(bits >> 16);
        if (dtype_ == DType::kF32) std::memcpy(&bytes_[static_cast<size_t>(i) * 4], &bits, 4);
        if (dtype_ == DType::kBF16) std::memcpy(&bytes_[static_cast<size_t>(i) * 2], &high, 2);
      }
      return;
    }
    if (dtype_ == DType::kF16) {
      for (int64_t i = 0; i < count; ++i) {
        // Any sign and fraction, subnormals to 2^-3.
        const uint16_t half = static_cast<uint16_t>(random.Bits() & 0x83ff) |
                              static_cast<uint16_t>(random.Between(0, 11) << 10);
        std::memcpy(&bytes_[static_cast<size_t>(i) * 2], &half, 2);
      }
      return;
    }
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random.Bits());
    const int64_t block_bytes = BlockBytes(dtype_);
    for (size_t at = 0; at < bytes_.size(); at += static_cast<size_t>(block_bytes)) {
      for (int64_t offset : HalfOffsets(dtype_)) {
        // 2^-10 to 2^-7, either sign.
        const uint16_t half = static_cast<uint16_t>(random.Bits() & 0x83ff) |
                              static_cast<uint16_t>(random.Between(5, 7) << 10);
        std::memcpy(&bytes_[at + static_cast<size_t>(offset)], &half, 2);
      }
    }
  }

  DType dtype_;
  std::vector<std::byte> bytes_;
  TensorView view_;
};

}  // namespace pergola::kernels::testing
