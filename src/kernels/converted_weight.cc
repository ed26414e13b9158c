#include "kernels/converted_weight.h"

#include "kernels/dequantise.h"
#include "kernels/quantise.h"

namespace pergola::kernels {

ConvertedWeight::ConvertedWeight(TensorView weight, WeightType type) : view_(weight) {
  const DType wanted = ComputedType(type, weight.dtype, weight.cols());
  if (wanted == weight.dtype) return;
  view_.dtype = wanted;
  const auto row_bytes = static_cast<size_t>(view_.row_bytes());
  bytes_.resize(row_bytes * static_cast<size_t>(weight.rows()));
  view_.data = bytes_.data();
  std::vector<float> values(static_cast<size_t>(weight.cols()));
  for (int64_t row = 0; row < weight.rows(); ++row) {
    DequantiseRow(weight.dtype, weight.row(row), weight.cols(), values.data());
    QuantiseRow(wanted, values.data(), weight.cols(),
                bytes_.data() + static_cast<size_t>(row) * row_bytes);
  }
}

}  // namespace pergola::kernels
