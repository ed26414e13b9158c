#include "hub/retry_pause.h"

#include <algorithm>
#include <random>
#include <thread>

namespace pergola::hub {
namespace {

double Draw() {
  std::random_device random;
  return std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

void RetryPolicy::Wait(std::chrono::milliseconds pause) const {
  if (sleep) return sleep(pause);
  std::this_thread::sleep_for(pause);
}

std::optional<std::chrono::milliseconds> PauseAfter(
    const RetryPolicy& policy, int failed, std::optional<std::chrono::seconds> retry_after) {
  constexpr int kMostDoublings = 16;
  const double longest = static_cast<double>(policy.first_pause.count()) *
                         static_cast<double>(1 << std::clamp(failed - 1, 0, kMostDoublings));
  const double share = 0.5 + 0.5 * (policy.uniform ? policy.uniform() : Draw());
  const std::chrono::milliseconds own = std::min(
      policy.longest_pause, std::chrono::milliseconds(static_cast<int64_t>(longest * share)));
  if (!retry_after) return own;
  if (*retry_after > policy.longest_pause) return std::nullopt;
  return std::max<std::chrono::milliseconds>(own, *retry_after);
}

}  // namespace pergola::hub
