// The feed-forward blocks of a model, computed on the spot.
//
// Plain:  down(activation(up(x) + b1)) + b2        (BERT family)
// Gated:  down(activation(gate(x)) * up(x))        (Gemma, Llama, Qwen)
#pragma once

#include <cstdint>
#include <utility>
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
