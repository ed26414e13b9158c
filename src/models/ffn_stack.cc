#include "models/ffn_stack.h"

#include <string>
#include <utility>

#include "core/check.h"
#include "models/decoder_names.h"

namespace pergola::models {

Result<FfnStack> FfnStack::Load(const ModelConfig& config, const formats::TensorSource& source,
                                kernels::Ops& ops, kernels::LinearOptions options,
                                LayerRange layers) {
  if (layers.first < 0 || layers.last < layers.first || layers.last >= config.num_layers) {
    return OutOfRangeError("layers " + std::to_string(layers.first) + "-" +
                           std::to_string(layers.last) + ": the model has layers 0-" +
                           std::to_string(config.num_layers - 1));
  }
  FfnStack stack(layers, ops);
  WeightReader reader(source, ops, options);
  const std::string prefix =
      FindDecoderPrefix(reader, config) + std::string(DecoderNamesOf(config).layer);
  for (int64_t layer = layers.first; layer <= layers.last; ++layer) {
    PERGOLA_ASSIGN_OR_RETURN(FfnWeights weights,
                             ReadDecoderFfn(reader, config, prefix + std::to_string(layer) + "."));
    stack.weights_.push_back(std::move(weights));
  }
  stack.owned_bytes_ = reader.owned_bytes();
  return stack;
}

void FfnStack::Apply(int64_t layer, ConstF32Matrix x, Workspace& workspace, F32Matrix y) const {
  PERGOLA_DCHECK(layers_.Has(layer));
  ApplyFfn(weights_[static_cast<size_t>(layer - layers_.first)], x, *ops_, workspace, y);
}

}  // namespace pergola::models
