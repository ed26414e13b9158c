// A budget of memory for answers: rows that requests in work will give, and rows of answers that
// are not yet written.
//
//   PERGOLA_ASSIGN_OR_RETURN(output.promise,
//                            budget.Take(AnswerBytes(info, request.outputs, request.sequences)));
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "core/sequence.h"
#include "pergola/status.h"
#include "service/inference_service.h"

namespace pergola::service {

// Of the rows of all sequences.
int64_t AnswerBytes(const ModelInfo& info, OutputSet outputs, std::span<const Sequence> sequences);

// Thread-safe.
class PromisedBytes {
 public:
  // The last eighth of `limit` is for answers up to 1 MiB: clients that read large ones slowly shut
  // out nobody else.
  explicit PromisedBytes(int64_t limit) : limit_(limit) {}

  // Given back when the last copy of the result goes, which may outlive this. INVALID_ARGUMENT:
  // more than fits at all; RESOURCE_EXHAUSTED: not now.
  Result<std::shared_ptr<const void>> Take(int64_t bytes);

  int64_t taken() const { return taken_->load(std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  // Second owners: what Take returned.
  const std::shared_ptr<std::atomic<int64_t>> taken_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace pergola::service
