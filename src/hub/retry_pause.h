// How long to wait before a request is made again: twice as long each time, drawn at random so that
// those who failed together do not come back together, and never less than the server asks for.
//
//   for (int failed = 1; failed < policy.tries; ++failed) {
//     const auto pause = PauseAfter(policy, failed, session.retry_after());
//     if (!pause) break;
//     policy.Wait(*pause);
//   }
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace pergola::hub {

struct RetryPolicy {
  int tries = 3;
  std::chrono::milliseconds first_pause{1000};  // at most, before the second try
  // A server that asks for more is not waited for.
  std::chrono::milliseconds longest_pause{120'000};
  // Empty: the calling thread sleeps.
  std::function<void(std::chrono::milliseconds)> sleep = {};
  // From 0 to 1; empty: drawn from the system's randomness.
  std::function<double()> uniform = {};

  void Wait(std::chrono::milliseconds pause) const;
};

// Before the try that follows `failed` failed ones (from 1): between a half and the whole of
// first_pause * 2^(failed - 1), or `retry_after` if that is longer. Nullopt: that is more than
// longest_pause.
std::optional<std::chrono::milliseconds> PauseAfter(
    const RetryPolicy& policy, int failed, std::optional<std::chrono::seconds> retry_after);

}  // namespace pergola::hub
