#include "models/blocks/local_ffn.h"

#include <algorithm>

namespace pergola::models {
namespace {

// Rows per thread that pass through a block at a time: what lies between its two products, by far
// its widest rows, then stays in the second-level cache. A row's bits know nothing of it.
constexpr int64_t kChunkRows = 96;

}  // namespace

Result<FfnWeights> ReadFfn(WeightReader& reader, const std::string& prefix, const FfnNames& names,
                           const FfnShape& shape) {
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const int64_t inner = shape.intermediate_size;
  const int64_t width = shape.hidden_size;
  FfnWeights ffn;
  ffn.activation = shape.activation;
  const bool joined = !names.gate_and_up.empty();
  const std::string both = name(names.gate_and_up);
  const int64_t gate_row = names.up_first ? inner : 0;
  {
    const WeightReader::RoleScope gate(reader, kernels::LinearRole::kGate);
    if (joined) {
      PERGOLA_ASSIGN_OR_RETURN(
          ffn.gate, reader.LinearPart(both, {gate_row, inner, 2 * inner}, width, shape.up_bias));
    } else if (!names.gate.empty()) {
      PERGOLA_ASSIGN_OR_RETURN(ffn.gate,
                               reader.Linear(name(names.gate), inner, width, shape.up_bias));
    }
  }
  {
    const WeightReader::RoleScope up(reader, kernels::LinearRole::kUp);
    if (joined) {
      PERGOLA_ASSIGN_OR_RETURN(ffn.up, reader.LinearPart(both, {inner - gate_row, inner, 2 * inner},
                                                         width, shape.up_bias));
    } else {
      PERGOLA_ASSIGN_OR_RETURN(ffn.up, reader.Linear(name(names.up), inner, width, shape.up_bias));
    }
  }
  PERGOLA_ASSIGN_OR_RETURN(ffn.down,
                           reader.Linear(name(names.down), width, inner, shape.down_bias));
  return ffn;
}

void ApplyFfn(const FfnWeights& weights, ConstF32Matrix x, kernels::Ops& ops, Workspace& workspace,
              F32Matrix y) {
  const int64_t inner_width = weights.up.weight->outputs();
  const F32Matrix inner = workspace.Get(Workspace::kFfnInner, x.rows, inner_width);
  if (weights.gate.weight) {
    const F32Matrix up = workspace.Get(Workspace::kFfnUp, x.rows, inner_width);
    const kernels::LinearOutput outputs[] = {weights.gate.To(inner), weights.up.To(up)};
    ops.Linears(x, outputs);
    ops.GatedActivation(weights.activation, inner, up);
  } else {
    ops.Linear(x, *weights.up.weight, weights.up.bias_data(), weights.activation, inner);
  }
  ops.Linear(inner, *weights.down.weight, weights.down.bias_data(), kernels::Epilogue::kNone, y);
}

Status LocalFfn::Start(int64_t layer, ConstF32Matrix x, F32Matrix y) {
  const int64_t chunk = kChunkRows * ops_.threads().num_threads();
  for (int64_t begin = 0; begin < x.rows; begin += chunk) {
    const int64_t rows = std::min(chunk, x.rows - begin);
    ApplyFfn(*layers_[static_cast<size_t>(layer)], x.slice(begin, rows), ops_, workspace_,
             y.slice(begin, rows));
  }
  return OkStatus();
}

}  // namespace pergola::models
