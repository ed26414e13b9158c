#include "kernels/weight_checks.h"

#include <string>

namespace pergola::kernels {

Status CheckLinearWeight(const TensorView& weight) {
  const std::string dtype(DTypeName(weight.dtype));
  if (weight.dtype == DType::kI8 || weight.dtype == DType::kI32) {
    return UnimplementedError("linear weights of type " + dtype + " are not supported");
  }
  if (weight.shape.rank < 1 || weight.rows() < 1 || weight.cols() < 1) {
    return InvalidArgumentError("linear weight of shape " + weight.shape.ToString() + " is empty");
  }
  const int64_t block = BlockElements(weight.dtype);
  if (weight.cols() % block != 0) {
    return InvalidArgumentError("linear weight of shape " + weight.shape.ToString() + ": rows of " +
                                dtype + " are multiples of " + std::to_string(block) + " values");
  }
  return OkStatus();
}

}  // namespace pergola::kernels
