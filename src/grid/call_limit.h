// Until when a call to another machine may wait, and what ends it sooner.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "service/cancel_token.h"

namespace pergola::grid {

using SteadyTime = std::chrono::steady_clock::time_point;

struct CallLimit {
  SteadyTime deadline = SteadyTime::max();
  const std::atomic<bool>* cancel = nullptr;     // null: nothing; must outlive the call
  const service::CancelToken* caller = nullptr;  // the same, of who asked for it

  bool cancelled() const {
    return (cancel != nullptr && cancel->load(std::memory_order_relaxed)) ||
           (caller != nullptr && caller->cancelled());
  }
  bool passed(SteadyTime now = std::chrono::steady_clock::now()) const { return now >= deadline; }
  // At most `longest`, at least 0.
  std::chrono::milliseconds Remaining(std::chrono::milliseconds longest) const {
    if (deadline == SteadyTime::max()) return longest;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    return std::clamp(left, std::chrono::milliseconds(0), longest);
  }
};

}  // namespace pergola::grid
