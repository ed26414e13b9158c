// Some feed-forward layers of a model without the rest of it: what a machine that computes only
// these holds.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto stack, FfnStack::Load(config, source, ops, options, {0, 8}));
//   stack.Apply(3, x, workspace, y);
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "models/blocks/local_ffn.h"
#include "models/config.h"
#include "models/weight_reader.h"
#include "models/workspace.h"

namespace pergola::models {

// Layers first .. last, both included.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;
  int64_t size() const { return last - first + 1; }
  bool Has(int64_t layer) const { return first <= layer && layer <= last; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// Immutable after loading; movable.
class FfnStack {
 public:
  // OUT_OF_RANGE when the model has not these layers; else errors that name the tensor. `source`
  // and `ops` must outlive the stack.
  static Result<FfnStack> Load(const ModelConfig& config, const formats::TensorSource& source,
                               kernels::Ops& ops, kernels::LinearOptions options,
                               LayerRange layers);

  const LayerRange& layers() const { return layers_; }
  size_t owned_bytes() const { return owned_bytes_; }

  // y = down(activation(gate x) * (up x)): no norm, no residual.
  //   x  f32 [T, D]  read
  //   y  f32 [T, D]  written; no overlap
  // `layer` counts from the model's first and is one of layers(). One thread at a time, as the Ops
  // demands.
  void Apply(int64_t layer, ConstF32Matrix x, Workspace& workspace, F32Matrix y) const;

 private:
  FfnStack(LayerRange layers, kernels::Ops& ops) : layers_(layers), ops_(&ops) {}

  LayerRange layers_;
  kernels::Ops* ops_;
  std::vector<FfnWeights> weights_;  // of layers_
  size_t owned_bytes_ = 0;
};

}  // namespace pergola::models
