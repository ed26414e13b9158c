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
//   4. Where that leaves out short online sequences (a sixteenth of the budget at most) for a
//   longer one, these run first, wherever in the queue they stand: an eighth of the budget at most,
//   in a step of their own; never twice in a row. A text of one word then waits for one step and
//   not for all long texts before it, and whoever is head for one such step more. Not in strict
//   order.
//
// When the batch is cut: an idle engine starts at once, and what arrives while it runs is the next
// batch. Only after a step of several sequences does the next one wait for company (CollectUntil):
// those just answered may be about to ask again, and one of them alone would make all others wait
// for its step. It waits until as many sequences are there as that step had, or tokens for a whole
// step, but no longer than `window_share` of that step's time, counted from its end, and
// `longest_window`. A lone client, or the first after a pause, never waits.
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
  // False: every batch waits for `fixed_wait` from the arrival of its oldest sequence, or until
  // there are tokens for a whole step (PERGOLA_ADAPTIVE_WAIT=0).
  bool adaptive_wait = true;
  std::chrono::nanoseconds fixed_wait = std::chrono::milliseconds(1);
  double window_share = 0.1;
  std::chrono::nanoseconds longest_window = std::chrono::milliseconds(2);
};

// The step that ran last; none yet: no sequences.
struct LastStep {
  size_t sequences = 0;
  service::Clock::time_point end;
  std::chrono::nanoseconds length{0};
  bool express = false;  // of ChooseExpress
};

// All that waits.
struct WaitingSum {
  size_t sequences = 0;
  int64_t tokens = 0;
  service::Clock::time_point oldest;  // arrival; looked at without adaptive_wait only
};

struct WaitingSequence {
  int64_t tokens = 0;
  service::Priority priority = service::Priority::kOnline;
  service::Clock::time_point arrived;
};

// Rules 1 to 3. Indices into `queue` (in order of arrival), ascending within each priority. Empty
// only for an empty queue. O(batch + lookahead + run of the other priority).
std::vector<size_t> ChooseBatch(std::span<const WaitingSequence> queue,
                                service::Clock::time_point now, const BatchingOptions& options);

// Rule 4: what runs in place of `batch`, which ChooseBatch chose from the same queue; empty:
// nothing, `batch` runs. Not to be asked right after a step that came of it. O(queue).
std::vector<size_t> ChooseExpress(std::span<const WaitingSequence> queue,
                                  std::span<const size_t> batch, const BatchingOptions& options);

// Until when the next batch is to be cut at the latest; not after now: at once. For what waits, at
// least one sequence. O(1).
service::Clock::time_point CollectUntil(const WaitingSum& waiting, const LastStep& last,
                                        const BatchingOptions& options);

}  // namespace pergola::scheduler
