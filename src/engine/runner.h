// One device, one model: runs a ragged batch at a time. The scheduler sees only this.
//
//   PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<engine::Outputs> outputs, runner->Run(batch));
//
// Owned through a token: whoever holds the engine calls Run; never two at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::engine {

// A sequence's ids (memory of the caller, during Run) and what is wanted of it.
struct SequenceInput {
  std::span<const int32_t> ids;
  bool token_vectors = false;  // its final hidden states instead of the pooled row
};

// Rows of one batch, perhaps still being computed: reading waits. Read from one thread.
class Outputs {
 public:
  virtual ~Outputs() = default;
  // Rows of sequence `index` in the order of Run: [1, E] pooled, or [tokens, D]. Full width, before
  // normalisation. Valid while the Outputs lives.
  virtual Result<ConstF32Matrix> Rows(int64_t index) = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Tokens per step from which more give less than 5 % more throughput: the scheduler's step
  // budget.
  virtual int64_t step_tokens() const = 0;
  virtual int64_t embedding_width() const = 0;  // E
  virtual int64_t hidden_width() const = 0;     // D
  // Thread-confined to the holder of the engine token. An error is of the whole batch.
  virtual Result<std::unique_ptr<Outputs>> Run(std::span<const SequenceInput> batch) = 0;
};

}  // namespace pergola::engine
