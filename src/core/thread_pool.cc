#include "core/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/cpu_features.h"

namespace pergola {
namespace {

// The ticket of the current loop: its generation and how many items are still to be claimed. One
// word, so that a worker which slept through several loops cannot claim an item of a loop it never
// saw: its compare-and-swap fails on the generation.
constexpr uint64_t kRemainingMask = 0xffffffffu;
uint64_t MakeTicket(uint64_t generation, uint64_t remaining) {
  return (generation << 32) | remaining;
}
uint64_t Remaining(uint64_t ticket) { return ticket & kRemainingMask; }

// A worker that finds nothing spins with a pause first (some 20 us), then gives its core away
// between looks, and finally goes to sleep: a holder in a long serial stretch, or a busy neighbour,
// must not pay for it. The holder pays a wake-up then, which it has earned.
constexpr int kSpins = 500;
constexpr int kYields = 200;

// Spins, then yields: for the holder's wait on items that a worker has claimed but not finished.
class Backoff {
 public:
  // False once both are used up.
  bool Pause() {
    if (spins_ < kSpins) {
      ++spins_;
      CpuRelax();
      return true;
    }
    std::this_thread::yield();
    return ++yields_ < kYields;
  }

 private:
  int spins_ = 0;
  int yields_ = 0;
};

}  // namespace

struct ThreadPool::State {
  std::atomic<uint64_t> ticket{0};
  // Items of the current loop that are done. On its own cache line: workers write it.
  alignas(64) std::atomic<int64_t> done{0};

  // The current loop. Written by the holder while no item is claimable or unfinished, read by a
  // thread only after it has claimed an item: so never at the same time.
  alignas(64) int64_t items = 0;
  void* context = nullptr;
  Invoke invoke = nullptr;

  int pass_depth = 0;       // holder only
  uint64_t generation = 0;  // holder only

  std::atomic<bool> pass_open{false};
  std::atomic<uint64_t> passes_begun{0};
  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;  // guarded by mutex
  std::vector<std::thread> workers;

  bool HasWork() const { return Remaining(ticket.load()) > 0; }

  // Claims and runs items until none is left to claim.
  void Work(int thread) {
    uint64_t current = ticket.load(std::memory_order_relaxed);
    while (Remaining(current) > 0) {
      if (!ticket.compare_exchange_weak(current, current - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
        continue;
      }
      invoke(context, items - static_cast<int64_t>(Remaining(current)), thread);
      done.fetch_add(1, std::memory_order_release);
      current = ticket.load(std::memory_order_relaxed);
    }
  }

  // Until there is work or a pass begins that is younger than `seen_pass`. Returns false when the
  // pool is being destroyed.
  bool Sleep(uint64_t seen_pass) {
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);  // before the look at the ticket: see WakeSleepers
    wake.wait(lock, [&] { return stopping || HasWork() || passes_begun.load() != seen_pass; });
    sleepers.fetch_sub(1);
    return !stopping;
  }

  // Sequentially consistent with Sleep: either the worker sees the new ticket or we see the
  // sleeper.
  void WakeSleepers() {
    if (sleepers.load() == 0) return;
    { std::lock_guard lock(mutex); }
    wake.notify_all();
  }

  void WorkerMain(int thread) {
    const DefaultFloatEnvironment environment;
    while (true) {
      Backoff backoff;
      const uint64_t pass = passes_begun.load();
      while (!HasWork() && pass_open.load(std::memory_order_relaxed) && backoff.Pause()) {
      }
      if (!HasWork() && !Sleep(pass)) return;
      Work(thread);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  PERGOLA_CHECK(num_threads >= 1);
  for (int thread = 1; thread < num_threads; ++thread) {
    state_->workers.emplace_back([state = state_.get(), thread] { state->WorkerMain(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->pass_open = false;
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->workers.size()) + 1; }

ThreadPool::Pass::Pass(ThreadPool& pool) : pool_(pool) {
  State& state = *pool_.state_;
  if (state.pass_depth++ > 0) return;
  state.pass_open = true;
  state.passes_begun.fetch_add(1);
  state.WakeSleepers();
}

ThreadPool::Pass::~Pass() {
  if (--pool_.state_->pass_depth == 0) pool_.state_->pass_open = false;
}

void ThreadPool::Run(int64_t items, void* context, Invoke invoke) {
  const DefaultFloatEnvironment environment;
  State& state = *state_;
  if (state.workers.empty() || items <= 1) {
    for (int64_t item = 0; item < items; ++item) invoke(context, item, 0);
    return;
  }
  PERGOLA_CHECK(items <= static_cast<int64_t>(kRemainingMask));
  state.items = items;
  state.context = context;
  state.invoke = invoke;
  state.done.store(0, std::memory_order_relaxed);
  state.ticket.store(MakeTicket(++state.generation, static_cast<uint64_t>(items)));
  state.WakeSleepers();
  state.Work(0);
  Backoff backoff;
  while (state.done.load(std::memory_order_acquire) != items) backoff.Pause();
}

}  // namespace pergola
