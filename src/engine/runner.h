// One device, one model: runs a ragged batch at a time. The scheduler sees only this.
//
//   PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<engine::Outputs> outputs, runner->Run(batch));
//
// Owned through a token: whoever holds the engine calls Run; never two at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/sequence.h"
#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::engine {

// A sequence (memory of the caller, during Run) and what is wanted of it.
struct SequenceInput {
  const Sequence* sequence = nullptr;
  OutputSet outputs = {OutputKind::kEmbedding};
};

// Rows of one batch, perhaps still being computed: reading waits. Read from one thread.
class Outputs {
 public:
  virtual ~Outputs() = default;
  // Rows of sequence `index` in the order of Run, of a kind that was asked for: full width, before
  // normalisation. Valid while the Outputs lives.
  virtual Result<ConstF32Matrix> Rows(int64_t index, OutputKind kind) = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Tokens per step from which more give less than 5 % more throughput: the scheduler's step
  // budget.
  virtual int64_t step_tokens() const = 0;
  // Columns of an output; 0: the model does not have it.
  virtual int64_t width(OutputKind kind) const = 0;
  // Loads what Run needs, where that is not in memory always, and says how long it took: nothing
  // when it was there. May block long; thread-confined as Run is. An error is of everybody who
  // waits.
  virtual Result<std::chrono::nanoseconds> MakeReady() { return std::chrono::nanoseconds(0); }
  // Thread-confined to the holder of the engine token. An error is of the whole batch.
  virtual Result<std::unique_ptr<Outputs>> Run(std::span<const SequenceInput> batch) = 0;
};

}  // namespace pergola::engine
