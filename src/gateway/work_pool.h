// Threads for what would hold up a network thread: tokenising large bodies, rendering large
// answers.
//
//   WorkPool pool(2);
//   pool.Post([exchange] { ... });
//
// First in, first out. Not for computing vectors: the scheduler has its own threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pergola::gateway {

// Thread-safe. The destructor runs what was posted before it, then joins.
class WorkPool {
 public:
  explicit WorkPool(int num_threads);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // `job` must not throw. Unbounded: what waits is bounded by the bodies the server holds.
  void Post(std::function<void()> job);

 private:
  void Work();

  std::mutex mutex_;  // guards the next three
  std::condition_variable ready_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pergola::gateway
