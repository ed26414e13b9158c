// Where a long list is cut, so that several replicas work on it and no answer is too large for one
// message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/inference_service.h"

namespace pergola::gateway {

// Of a piece, unless it is one sequence.
struct PieceLimits {
  int64_t tokens = 4096;
  int64_t answer_bytes = int64_t{16} << 20;
};

// Where the pieces of `request.sequences` begin and, last, the number of sequences; at least one
// piece. Tokens are shared out evenly among as many pieces as the limits take, rounded up to a
// multiple of `replicas` as long as pieces stay over half of the limit.
std::vector<size_t> CutList(const service::ModelInfo& info,
                            const service::InferenceRequest& request, int replicas,
                            const PieceLimits& limits);

}  // namespace pergola::gateway
