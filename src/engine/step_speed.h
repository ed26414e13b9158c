// How many tokens a batch must have until more of them bring no more speed: what the budget of a
// scheduler's step is chosen by.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto speeds, MeasureSteps(runner, vocab_size, max_tokens));
//   const int64_t budget = SmallestStep(speeds);
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "pergola/status.h"

namespace pergola::engine {

struct StepSpeed {
  int64_t tokens = 0;  // of a batch
  double tokens_per_s = 0;
};

// Batches of 32, 64, ... 2048 tokens, in sequences of 32 (or of `max_tokens`, if that is less),
// each again and again for `each` and at least twice: the fastest counts. Blocks. Errors of the
// runner.
Result<std::vector<StepSpeed>> MeasureSteps(
    Runner& runner, int64_t vocab_size, int64_t max_tokens,
    std::chrono::nanoseconds each = std::chrono::milliseconds(60));

// The fewest tokens that reach `share` of the highest speed; 0 for none.
int64_t SmallestStep(std::span<const StepSpeed> speeds, double share = 0.95);

}  // namespace pergola::engine
