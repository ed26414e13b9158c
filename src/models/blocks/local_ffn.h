// The feed-forward blocks of a model, computed on the spot.
//
// Plain:  down(activation(up(x) + b1)) + b2        (BERT)
// Gated:  down(activation(gate(x)) * up(x))        (Gemma, Llama, Qwen, ModernBERT, Nomic)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "models/ffn_port.h"
#include "models/weight_reader.h"
#include "models/workspace.h"

namespace pergola::models {

struct FfnWeights {
  LinearLayer gate;  // [F, D]; no weight: a plain block
  LinearLayer up;    // [F, D]
  LinearLayer down;  // [D, F]
  kernels::Epilogue activation = kernels::Epilogue::kGeluErf;
};

// Names of the tensors under a layer's prefix, without ".weight".
struct FfnNames {
  std::string_view gate = {};  // empty: a plain block, or gate and up lie in one tensor
  std::string_view up = {};
  std::string_view down = {};
  std::string_view gate_and_up = {};  // [2F, D]; empty: apart
  bool up_first = false;              // the first F rows of gate_and_up are `up`
};

struct FfnShape {
  int64_t hidden_size = 0;        // D
  int64_t intermediate_size = 0;  // F
  bool up_bias = false;           // and the gate's
  bool down_bias = false;
  kernels::Epilogue activation = kernels::Epilogue::kGeluErf;
};

// Errors name the tensor.
Result<FfnWeights> ReadFfn(WeightReader& reader, const std::string& prefix, const FfnNames& names,
                           const FfnShape& shape);

// One block. Uses the workspace's kFfnInner and kFfnUp.
//   x  f32 [T, D]  read
//   y  f32 [T, D]  written; no overlap
void ApplyFfn(const FfnWeights& weights, ConstF32Matrix x, kernels::Ops& ops, Workspace& workspace,
              F32Matrix y);

// Made for one forward pass over a workspace; the weights (one per layer), ops and workspace must
// outlive it.
class LocalFfn : public FfnPort {
 public:
  LocalFfn(const std::vector<const FfnWeights*>& layers, kernels::Ops& ops, Workspace& workspace)
      : layers_(layers), ops_(ops), workspace_(workspace) {}

  Status Start(int64_t layer, ConstF32Matrix x, F32Matrix y) override;
  Status Finish(int64_t) override { return OkStatus(); }

 private:
  const std::vector<const FfnWeights*>& layers_;
  kernels::Ops& ops_;
  Workspace& workspace_;
};

}  // namespace pergola::models
