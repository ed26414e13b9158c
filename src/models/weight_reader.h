// Reads the weights of a model from a TensorSource into the form that an Ops wants.
//
//   WeightReader reader(source, ops, {});
//   PERGOLA_ASSIGN_OR_RETURN(up, reader.Linear("layers.0.mlp.up_proj", 96, 64, false));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "pergola/status.h"

namespace pergola::models {

// A dense layer's weight with its bias (empty: none).
struct LinearLayer {
  std::unique_ptr<kernels::LinearWeight> weight;  // [N, K]
  std::vector<float> bias;                        // [N]
  std::vector<std::byte> rows;                    // what `weight` reads, if not the mapping itself
  const float* bias_data() const { return bias.empty() ? nullptr : bias.data(); }
  // For Ops::Linears: without an activation, to y.
  kernels::LinearOutput To(F32Matrix y) const {
    return {weight.get(), bias_data(), kernels::Epilogue::kNone, y};
  }
};

// Weight and bias of a norm (bias empty: none).
struct NormLayer {
  std::vector<float> weight;
  std::vector<float> bias;
  const float* bias_data() const { return bias.empty() ? nullptr : bias.data(); }
};

// Thread-confined. Source and ops must outlive what is read.
class WeightReader {
 public:
  WeightReader(const formats::TensorSource& source, kernels::Ops& ops,
               kernels::LinearOptions options)
      : source_(source), ops_(ops), options_(options) {}

  bool Has(const std::string& name) const { return source_.Find(name) != nullptr; }

  // The first of `prefixes` under which there is a tensor `name`; "" when there is none.
  // Checkpoints of a task model put the encoder's tensors under a name of their own.
  std::string FindPrefix(std::span<const std::string_view> prefixes, const std::string& name) const;

  // [size], widened to f32. Errors of all: NOT_FOUND or INVALID_ARGUMENT naming the tensor.
  Result<std::vector<float>> Vector(const std::string& name, int64_t size);
  // [rows, cols], widened to f32.
  Result<std::vector<float>> Values(const std::string& name, int64_t rows, int64_t cols);
  // [rows, cols], as mapped.
  Result<TensorView> Table(const std::string& name, int64_t rows, int64_t cols);
  // `prefix`.weight [outputs, inputs] and, if `with_bias`, `prefix`.bias [outputs]. An empty prefix
  // stands for the plain names, in all functions with a prefix.
  Result<LinearLayer> Linear(const std::string& prefix, int64_t outputs, int64_t inputs,
                             bool with_bias);
  // Rows [first, first + count) of `prefix`.weight [total, inputs] and, if `with_bias`, the same of
  // `prefix`.bias.
  struct RowRange {
    int64_t first;
    int64_t count;
    int64_t total;
  };
  Result<LinearLayer> LinearPart(const std::string& prefix, RowRange rows, int64_t inputs,
                                 bool with_bias);
  // `factor` * `prefix`.weight [outputs, inputs]; widened to f32 when factor is not 1.
  Result<LinearLayer> ScaledLinear(const std::string& prefix, int64_t outputs, int64_t inputs,
                                   float factor);
  // Rows `ids` of `prefix`.weight [rows, inputs], widened to f32; with `difference` (two rows) one:
  // the first minus the second. INVALID_ARGUMENT for an id that is outside.
  Result<LinearLayer> LinearOfRows(const std::string& prefix, std::span<const int32_t> ids,
                                   int64_t inputs, bool difference);
  // f32 [outputs, inputs] made from weights, in f32 whatever the options say. `name` stands in
  // errors.
  Result<LinearLayer> LinearOfValues(const std::string& name, std::span<const float> values,
                                     int64_t outputs, int64_t inputs);
  // `prefix`.weight [outputs, inputs] and, if `with_bias`, `prefix`.bias, whose rows alternate
  // between the halves of each head, put back: row j W/2 + k of a head is read from row 2 k + j.
  // `head_width` W even, divides `outputs`.
  Result<LinearLayer> LinearOfInterleavedHeads(const std::string& prefix, int64_t outputs,
                                               int64_t inputs, int64_t head_width, bool with_bias);
  // `prefix`.weight [size], plus 1 where the checkpoint holds the difference from 1.
  Result<std::vector<float>> RmsNorm(const std::string& prefix, int64_t size, bool plus_one);
  // `prefix`.weight and, if `with_bias`, `prefix`.bias, [size] each.
  Result<NormLayer> Norm(const std::string& prefix, int64_t size, bool with_bias);

  // While it lives, linear layers are read as those of a role.
  class RoleScope {
   public:
    RoleScope(WeightReader& reader, kernels::LinearRole role)
        : reader_(reader), before_(reader.options_.role) {
      reader.options_.role = role;
    }
    ~RoleScope() { reader_.options_.role = before_; }
    RoleScope(const RoleScope&) = delete;
    RoleScope& operator=(const RoleScope&) = delete;

   private:
    WeightReader& reader_;
    kernels::LinearRole before_;
  };

  // Bytes of repacked weights and widened vectors read so far.
  size_t owned_bytes() const { return owned_bytes_; }

 private:
  Result<LinearLayer> Prepare(const std::string& name, TensorView view);
  // Rows of our own, and a view of them whose data PrepareOwned sets.
  struct OwnedRows {
    TensorView view;
    std::vector<std::byte> bytes;
  };
  // factor * rows `ids`, as f32.
  OwnedRows GatherRows(const TensorView& table, std::span<const int32_t> ids, float factor);
  // As Prepare; the rows go into the layer if the weight reads them.
  Result<LinearLayer> PrepareOwned(const std::string& name, OwnedRows rows);

  const formats::TensorSource& source_;
  kernels::Ops& ops_;
  kernels::LinearOptions options_;
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
