// Compute threads that one holder drives through the parallel loops of a forward pass.
//
//   ThreadPool pool(2);
//   ThreadPool::Pass pass(pool);                 // workers wake and spin until `pass` ends
//   pool.ParallelFor(rows, [&](int64_t row) { ... });
//
// Between passes the workers sleep and cost nothing; within a pass they spin for some 20 us, then
// give the core away between looks, then sleep: a wake-up costs 80 us on a small virtual machine
// and a forward pass holds hundreds of loops. Each thread begins with a share of a loop's items,
// the same part of the range in every loop, so that what it wrote or read before is in its own
// caches; items are claimed one at a time, and who is done takes those of others, from the end of
// their shares. The holder waits only for items that somebody claimed, so a worker without a core
// delays nobody. The holder's own thread works too: ThreadPool(1) has no worker and never
// synchronises. Thread-confined: one holder at a time (the scheduler's engine token guarantees it).
// Every body runs in the default floating-point environment (core/cpu_features.h). How work is
// split never changes results: see docs/numerics.md.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace pergola {

class ThreadPool {
 public:
  // `num_threads` >= 1 counts the holder's own thread.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Keeps the workers awake from construction to destruction. Nests.
  class Pass {
   public:
    explicit Pass(ThreadPool& pool);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    ThreadPool& pool_;
  };

  // Calls body(item) once for every item of [0, items), each on some thread, and returns when all
  // are done; at most 2^32 - 1 items. A thread takes the items of its share in ascending order.
  // Make them worth at least some 10 us. The body must not throw and must not call ParallelFor.
  template <typename Body>
  void ParallelFor(int64_t items, Body&& body) {
    using Function = std::remove_reference_t<Body>;
    Run(items, const_cast<void*>(static_cast<const void*>(&body)),
        [](void* context, int64_t item, int) { (*static_cast<Function*>(context))(item); });
  }

  // As ParallelFor, with the number of the thread (0 .. num_threads() - 1) for per-thread scratch.
  template <typename Body>
  void ParallelForWithThread(int64_t items, Body&& body) {
    using Function = std::remove_reference_t<Body>;
    Run(items, const_cast<void*>(static_cast<const void*>(&body)),
        [](void* context, int64_t item, int thread) {
          (*static_cast<Function*>(context))(item, thread);
        });
  }

 private:
  using Invoke = void (*)(void* context, int64_t item, int thread);
  void Run(int64_t items, void* context, Invoke invoke);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pergola
