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
  // Whose turn it is where runners share memory, and how long to wait for it.
  struct Need {
    std::chrono::steady_clock::time_point oldest;  // when the first came of all that wait
    std::chrono::steady_clock::time_point until;
  };
  struct Readied {
    std::chrono::nanoseconds load_time{0};  // 0: it was there
    Status missing = OkStatus();            // else it is not ready yet, and why: ask again
  };
  // Loads what Run needs, where that is not in memory always. May wait for others until
  // `need.until`, or until somebody calls Wake, and may then load for long; thread-confined as Run
  // is. An error is of everybody who waits.
  virtual Result<Readied> MakeReady(const Need&) { return Readied{}; }
  // Lets a MakeReady that waits for others return, or the next one that would. Any thread.
  virtual void Wake() {}
  // Thread-confined to the holder of the engine token. An error is of the whole batch.
  virtual Result<std::unique_ptr<Outputs>> Run(std::span<const SequenceInput> batch) = 0;
};

}  // namespace pergola::engine
