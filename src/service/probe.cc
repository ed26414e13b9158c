#include "service/probe.h"

#include <algorithm>

namespace pergola::service {

InferenceRequest MakeProbe(const ModelInfo& model, uint64_t number) {
  const auto vocabulary = static_cast<uint64_t>(std::max<int64_t>(model.vocab_size, 1));
  InferenceRequest request;
  request.model = model.id;
  request.probe = true;
  request.outputs = model.has(OutputKind::kEmbedding) ? OutputSet{OutputKind::kEmbedding}
                                                      : OutputSet{OutputKind::kLogits};
  Sequence& sequence = request.sequences.emplace_back();
  sequence.ids = {static_cast<int32_t>(number % vocabulary)};
  if (model.max_tokens > 1) {
    sequence.ids.push_back(static_cast<int32_t>(number / vocabulary % vocabulary));
  }
  return request;
}

}  // namespace pergola::service
