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

// Items of the current loop that a thread is to run and nobody has claimed yet, [begin, end), as
// one word: a claim is of one state of both. It may be of a later loop than its claimer saw begin,
// for what a loop is gets read after the claim.
struct Share {
  uint64_t begin, end;

  static Share Unpack(uint64_t word) { return {word >> 32, word & 0xffffffff}; }
  uint64_t Pack() const { return begin << 32 | end; }
  bool empty() const { return begin == end; }
};
constexpr int64_t kMaxItems = 0xffffffff;

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
  // A thread's share is taken from in front by itself and from behind by threads that found no more
  // in theirs.
  struct alignas(64) Seat {
    std::atomic<uint64_t> share{0};
  };
  std::vector<Seat> seats;

  // The current loop. Written by the holder while no item is claimable or unfinished, read by a
  // thread only after it has claimed an item: so never at the same time.
  alignas(64) void* context = nullptr;
  Invoke invoke = nullptr;
  int pass_depth = 0;  // holder only

  // What workers spin on.
  alignas(64) std::atomic<uint64_t> loops_begun{0};  // counted when all shares are there
  std::atomic<bool> pass_open{false};
  std::atomic<uint64_t> passes_begun{0};

  // Items of the current loop that are done and counted.
  alignas(64) std::atomic<int64_t> done{0};

  alignas(64) std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;  // guarded by mutex
  std::vector<std::thread> workers;

  explicit State(int num_threads) : seats(static_cast<size_t>(num_threads)) {}

  // Claims and runs items of a seat, its own or another's, until none is left; how many it ran.
  int64_t WorkAt(int seat, int thread) {
    std::atomic<uint64_t>& word = seats[static_cast<size_t>(seat)].share;
    int64_t ran = 0;
    uint64_t current = word.load(std::memory_order_relaxed);
    for (Share share = Share::Unpack(current); !share.empty(); share = Share::Unpack(current)) {
      const uint64_t item = seat == thread ? share.begin++ : --share.end;
      if (!word.compare_exchange_weak(current, share.Pack(), std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        continue;
      }
      invoke(context, static_cast<int64_t>(item), thread);
      ++ran;
      current = word.load(std::memory_order_relaxed);
    }
    return ran;
  }

  void Work(int thread) {
    const int threads = static_cast<int>(seats.size());
    for (int step = 0; step < threads; ++step) {
      const int64_t ran = WorkAt((thread + step) % threads, thread);
      if (ran > 0) done.fetch_add(ran, std::memory_order_release);
    }
  }

  // Until a loop begins after `seen_loops` or a pass after `seen_passes`. Returns false when the
  // pool is being destroyed.
  bool Sleep(uint64_t seen_loops, uint64_t seen_passes) {
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);  // before the look at the loops: see WakeSleepers
    wake.wait(lock, [&] {
      return stopping || loops_begun.load() != seen_loops || passes_begun.load() != seen_passes;
    });
    sleepers.fetch_sub(1);
    return !stopping;
  }

  // Sequentially consistent with Sleep: either the worker sees the new loop or we see the
  // sleeper.
  void WakeSleepers() {
    if (sleepers.load() == 0) return;
    { std::lock_guard lock(mutex); }
    wake.notify_all();
  }

  void WorkerMain(int thread) {
    const DefaultFloatEnvironment environment;
    uint64_t seen = 0;
    while (true) {
      Backoff backoff;
      const uint64_t passes = passes_begun.load();
      while (loops_begun.load() == seen && pass_open.load(std::memory_order_relaxed) &&
             backoff.Pause()) {
      }
      if (loops_begun.load() == seen && !Sleep(seen, passes)) return;
      seen = loops_begun.load();
      Work(thread);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) {
  PERGOLA_CHECK(num_threads >= 1);
  state_ = std::make_unique<State>(num_threads);
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
  PERGOLA_CHECK(items <= kMaxItems);
  state.context = context;
  state.invoke = invoke;
  state.done.store(0, std::memory_order_relaxed);
  // Rounded up: of fewer items than threads the holder, who is awake, has one.
  const auto threads = static_cast<int64_t>(state.seats.size());
  const auto begin = [&](int64_t thread) {
    return static_cast<uint64_t>((items * thread + threads - 1) / threads);
  };
  for (int64_t thread = 0; thread < threads; ++thread) {
    const Share share = {begin(thread), begin(thread + 1)};
    state.seats[static_cast<size_t>(thread)].share.store(share.Pack(), std::memory_order_release);
  }
  state.loops_begun.fetch_add(1);
  state.WakeSleepers();
  state.Work(0);
  Backoff backoff;
  while (state.done.load(std::memory_order_acquire) != items) backoff.Pause();
}

}  // namespace pergola
