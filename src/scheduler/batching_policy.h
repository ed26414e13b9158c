// Which waiting sequences make the next batch: a pure function of the queue, tested with made-up
// queues.
//
// The rule, first come first served by tokens:
//   1. The head goes first: the oldest online sequence, or the oldest of all once some bulk
//   sequence
//      has waited longer than `bulk_patience`.
//   2. The rest of the step's token budget is filled in order of arrival, online before bulk. With
//      look-ahead, a sequence that does not fit is stepped over (it stays where it is and is never
//      overtaken as head); without, the batch ends there.
//   3. A sequence larger than the budget runs alone.
// There is no timer: an idle engine starts at once, and what arrives while it runs is the next
// batch.
//
// Starvation: whoever is head runs in the next step, so an online sequence waits for at most the
// sequences that arrived before it; a bulk sequence at most bulk_patience longer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "service/inference_service.h"

namespace pergola::scheduler {

struct BatchingOptions {
  int64_t step_tokens = 512;    // token budget of a step
  int64_t max_sequences = 512;  // of a step
  // Entries looked at beyond the first that does not fit; 0 = strict order
  // (PERGOLA_BATCH_LOOKAHEAD=0).
  int64_t lookahead = 256;
  std::chrono::nanoseconds bulk_patience = std::chrono::seconds(2);
};

struct WaitingSequence {
  int64_t tokens = 0;
  service::Priority priority = service::Priority::kOnline;
  service::Clock::time_point arrived;
};

// Indices into `queue` (in order of arrival), ascending within each priority. Empty only for an
// empty queue. O(batch + lookahead + run of the other priority).
std::vector<size_t> ChooseBatch(std::span<const WaitingSequence> queue,
                                service::Clock::time_point now, const BatchingOptions& options);

}  // namespace pergola::scheduler
