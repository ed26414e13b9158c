// A request that only a forward pass can answer: whether a model still works.
#pragma once

#include <cstdint>

#include "service/inference_service.h"

namespace pergola::service {

// One sequence of at most two tokens, another for each `number`, so that no cache answers it.
// Without deadline.
InferenceRequest MakeProbe(const ModelInfo& model, uint64_t number);

}  // namespace pergola::service
