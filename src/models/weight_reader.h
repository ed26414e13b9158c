// Reads the weights of a model from a TensorSource into the form that an Ops wants.
//
//   WeightReader reader(source, ops, {});
//   PERGOLA_ASSIGN_OR_RETURN(w, reader.Linear("layers.0.mlp.up_proj.weight", 96, 64));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "pergola/status.h"

namespace pergola::models {

// A dense layer's weight with its bias (empty: none).
struct LinearLayer {
  std::unique_ptr<kernels::LinearWeight> weight;  // [N, K]
  std::vector<float> bias;                        // [N]
  const float* bias_data() const { return bias.empty() ? nullptr : bias.data(); }
};

// Weight and bias of a norm (bias empty: none).
struct NormLayer {
  std::vector<float> weight;
  std::vector<float> bias;
};

// Thread-confined. Source and ops must outlive what is read.
class WeightReader {
 public:
  WeightReader(const formats::TensorSource& source, kernels::Ops& ops,
               kernels::LinearOptions options)
      : source_(source), ops_(ops), options_(options) {}

  bool Has(const std::string& name) const { return source_.Find(name) != nullptr; }

  // [size], widened to f32. Errors of all: NOT_FOUND or INVALID_ARGUMENT naming the tensor.
  Result<std::vector<float>> Vector(const std::string& name, int64_t size);
  // [rows, cols], widened to f32.
  Result<std::vector<float>> Values(const std::string& name, int64_t rows, int64_t cols);
  // [rows, cols], as mapped.
  Result<TensorView> Table(const std::string& name, int64_t rows, int64_t cols);
  // `prefix`.weight [outputs, inputs] and, if `with_bias`, `prefix`.bias [outputs].
  Result<LinearLayer> Linear(const std::string& prefix, int64_t outputs, int64_t inputs,
                             bool with_bias);
  // `prefix`.weight and, if `with_bias`, `prefix`.bias, [size] each.
  Result<NormLayer> Norm(const std::string& prefix, int64_t size, bool with_bias);

  // Bytes of repacked weights and widened vectors read so far.
  size_t owned_bytes() const { return owned_bytes_; }

 private:
  const formats::TensorSource& source_;
  kernels::Ops& ops_;
  kernels::LinearOptions options_;
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
