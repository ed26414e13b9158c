// Views of tensors: what passes between formats, models and kernels. None of them owns memory.
//
//   TensorView   read-only, any dtype, up to 4 dimensions: a tensor of a checkpoint, mapped.
//   Matrix<T>    rows of plain values with a row stride: an activation buffer or part of one.
//
// Row-major, last dimension contiguous. Whoever stores a view says who must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/dtype.h"

namespace pergola {

inline constexpr int kMaxRank = 4;

// Dimensions of a tensor, outermost first: a weight [N, K] has dims {N, K}. Rank 0 is a scalar.
struct Shape {
  std::array<int64_t, kMaxRank> dims = {};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    for (int64_t size : sizes) dims[rank++] = size;
  }

  int64_t operator[](int axis) const { return dims[axis]; }
  // Product of all dimensions; 1 for a scalar. Readers have checked that it fits.
  int64_t elements() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= dims[axis];
    return product;
  }
  // Last dimension (1 for a scalar) and the product of all before it.
  int64_t cols() const { return rank == 0 ? 1 : dims[rank - 1]; }
  int64_t rows() const { return cols() == 0 ? 0 : elements() / cols(); }

  // "[768, 3072]"
  std::string ToString() const;

  friend bool operator==(const Shape&, const Shape&) = default;
};

// A tensor's bytes, dtype and shape. Rows (last dimension) are whole blocks of the dtype, end to
// end. `data` may have any alignment: mapped files promise only their format's own.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t rows() const { return shape.rows(); }
  int64_t cols() const { return shape.cols(); }
  int64_t row_bytes() const { return RowBytes(dtype, cols()); }
  int64_t bytes() const { return rows() * row_bytes(); }
  const std::byte* row(int64_t index) const { return data + index * row_bytes(); }
};

// `rows` rows of `cols` contiguous values, `stride` values apart (stride >= cols).
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* data_in, int64_t rows_in, int64_t cols_in)
      : data(data_in), rows(rows_in), cols(cols_in), stride(cols_in) {}
  Matrix(T* data_in, int64_t rows_in, int64_t cols_in, int64_t stride_in)
      : data(data_in), rows(rows_in), cols(cols_in), stride(stride_in) {}
  // Matrix<float> converts to Matrix<const float>.
  operator Matrix<const T>() const { return {data, rows, cols, stride}; }

  T* row(int64_t index) const { return data + index * stride; }
  // Columns [begin, begin + count) of every row.
  Matrix columns(int64_t begin, int64_t count) const { return {data + begin, rows, count, stride}; }
  // Rows [begin, begin + count).
  Matrix slice(int64_t begin, int64_t count) const { return {row(begin), count, cols, stride}; }
};

using F32Matrix = Matrix<float>;
using ConstF32Matrix = Matrix<const float>;

}  // namespace pergola
