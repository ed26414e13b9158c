#include "models/weight_reader.h"

#include <numeric>

namespace pergola::models {

Result<std::vector<float>> WeightReader::Values(const std::string& name, int64_t rows,
                                                int64_t cols) {
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source_.Get(name, Shape{rows, cols}));
  std::vector<float> values(static_cast<size_t>(rows * cols));
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  // Gather is the operation that widens any dtype.
  ops_.Gather(view, ids, 1.0f, /*accumulate=*/false, {values.data(), rows, cols});
  owned_bytes_ += values.size() * sizeof(float);
  return values;
}

Result<std::vector<float>> WeightReader::Vector(const std::string& name, int64_t size) {
  PERGOLA_ASSIGN_OR_RETURN(TensorView view, source_.Get(name, Shape{size}));
  if (size % BlockElements(view.dtype) != 0) {
    return InvalidArgumentError("tensor '" + name + "': " + std::to_string(size) +
                                " values are no whole number of blocks");
  }
  view.shape = Shape{1, size};
  std::vector<float> values(static_cast<size_t>(size));
  const int32_t first = 0;
  ops_.Gather(view, {&first, 1}, 1.0f, /*accumulate=*/false, {values.data(), 1, size});
  owned_bytes_ += values.size() * sizeof(float);
  return values;
}

Result<TensorView> WeightReader::Table(const std::string& name, int64_t rows, int64_t cols) {
  return source_.Get(name, Shape{rows, cols});
}

Result<LinearLayer> WeightReader::Linear(const std::string& prefix, int64_t outputs, int64_t inputs,
                                         bool with_bias) {
  const std::string name = prefix + ".weight";
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source_.Get(name, Shape{outputs, inputs}));
  LinearLayer layer;
  Result<std::unique_ptr<kernels::LinearWeight>> weight = ops_.PrepareLinear(view, options_);
  if (!weight.ok()) return weight.status().WithContext("tensor '" + name + "'");
  layer.weight = std::move(weight).value();
  owned_bytes_ += layer.weight->owned_bytes();
  if (with_bias) {
    PERGOLA_ASSIGN_OR_RETURN(layer.bias, Vector(prefix + ".bias", outputs));
  }
  return layer;
}

Result<NormLayer> WeightReader::Norm(const std::string& prefix, int64_t size, bool with_bias) {
  NormLayer norm;
  PERGOLA_ASSIGN_OR_RETURN(norm.weight, Vector(prefix + ".weight", size));
  if (with_bias) {
    PERGOLA_ASSIGN_OR_RETURN(norm.bias, Vector(prefix + ".bias", size));
  }
  return norm;
}

}  // namespace pergola::models
