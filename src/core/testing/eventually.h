// Waits for what another thread brings about, and not for ever.
//
//   ASSERT_TRUE(Eventually([&] { return answered == 3; }));
#pragma once

#include <chrono>
#include <thread>

namespace pergola {

// Whether `condition` came true within a time that is long even for a busy machine under a
// sanitizer. Asks it again and again, for conditions that nobody tells of.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace pergola
