#include "models/blocks/local_ffn.h"

namespace pergola::models {

Status LocalFfn::Start(int64_t layer, ConstF32Matrix x, F32Matrix y) {
  const FfnWeights& weights = *layers_[static_cast<size_t>(layer)];
  const int64_t inner_width = weights.up.weight->outputs();
  const F32Matrix inner = workspace_.Get(Workspace::kFfnInner, x.rows, inner_width);
  if (weights.gate.weight) {
    const F32Matrix up = workspace_.Get(Workspace::kFfnUp, x.rows, inner_width);
    ops_.Linear(x, *weights.gate.weight, weights.gate.bias_data(), kernels::Epilogue::kNone, inner);
    ops_.Linear(x, *weights.up.weight, weights.up.bias_data(), kernels::Epilogue::kNone, up);
    ops_.GatedActivation(weights.activation, inner, up);
  } else {
    ops_.Linear(x, *weights.up.weight, weights.up.bias_data(), weights.activation, inner);
  }
  ops_.Linear(inner, *weights.down.weight, weights.down.bias_data(), kernels::Epilogue::kNone, y);
  return OkStatus();
}

}  // namespace pergola::models
