// Calls something every so often while it lives, on a thread of its own:
//
//   const Periodic evictions(std::chrono::milliseconds(500), [&] { topology.Evict(now()); });
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace pergola {

// What `work` uses must outlive it. The first call comes after one period; a call that takes longer
// is not made up for. The destructor waits for a call under way.
class Periodic {
 public:
  Periodic(std::chrono::milliseconds period, std::function<void()> work);
  ~Periodic();
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  std::mutex mutex_;  // guards the next
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace pergola
