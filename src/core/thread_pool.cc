#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/cpu_features.h"

namespace pergola {
namespace {

// Items of a loop that a thread is to run and has not claimed yet, [begin, end), and the loop's
// generation. One word, so that a thread which slept through several loops cannot claim an item of
// a loop it never saw: its compare-and-swap fails on the generation.
struct Share {
  uint64_t generation, begin, end;

  static Share Unpack(uint64_t word) { return {word >> 32, word >> 16 & 0xffff, word & 0xffff}; }
  uint64_t Pack() const { return generation << 32 | begin << 16 | end; }
  bool empty() const { return begin == end; }
};
constexpr int64_t kMaxLoopItems = 0xffff;

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
  // What one thread has to do: its share is taken from in front by itself and from behind by
  // threads that are done with theirs. Its owner spins on its own line.
  struct alignas(64) Seat {
    std::atomic<uint64_t> share{0};
  };
  std::vector<Seat> seats;
  // Items of the current loop that are done.
  alignas(64) std::atomic<int64_t> done{0};

  // The current loop. Written by the holder while no item is claimable or unfinished, read by a
  // thread only after it has claimed an item: so never at the same time.
  alignas(64) int64_t first_item = 0;
  void* context = nullptr;
  Invoke invoke = nullptr;

  int pass_depth = 0;       // holder only
  uint64_t generation = 0;  // holder only, below 2^32

  std::atomic<bool> pass_open{false};
  std::atomic<uint64_t> passes_begun{0};
  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;  // guarded by mutex
  std::vector<std::thread> workers;

  explicit State(int num_threads) : seats(static_cast<size_t>(num_threads)) {}

  uint64_t Generation(int thread) const {
    return Share::Unpack(seats[static_cast<size_t>(thread)].share.load()).generation;
  }

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
      invoke(context, first_item + static_cast<int64_t>(item), thread);
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

  // Until there is a loop after `seen`, or a pass begins after `seen_pass`. Returns false when the
  // pool is being destroyed.
  bool Sleep(int thread, uint64_t seen, uint64_t seen_pass) {
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);  // before the look at the share: see WakeSleepers
    wake.wait(lock, [&] {
      return stopping || Generation(thread) != seen || passes_begun.load() != seen_pass;
    });
    sleepers.fetch_sub(1);
    return !stopping;
  }

  // Sequentially consistent with Sleep: either the worker sees its new share or we see the
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
      const uint64_t pass = passes_begun.load();
      while (Generation(thread) == seen && pass_open.load(std::memory_order_relaxed) &&
             backoff.Pause()) {
      }
      if (Generation(thread) == seen && !Sleep(thread, seen, pass)) return;
      seen = Generation(thread);
      Work(thread);
    }
  }

  // Items [first, first + items) of a loop.
  void RunLoop(int64_t first, int64_t items) {
    first_item = first;
    done.store(0, std::memory_order_relaxed);
    generation = (generation + 1) & 0xffffffff;
    const auto threads = static_cast<int64_t>(seats.size());
    for (int64_t thread = 0; thread < threads; ++thread) {
      const Share share = {generation, static_cast<uint64_t>(items * thread / threads),
                           static_cast<uint64_t>(items * (thread + 1) / threads)};
      seats[static_cast<size_t>(thread)].share.store(share.Pack());
    }
    WakeSleepers();
    Work(0);
    Backoff backoff;
    while (done.load(std::memory_order_acquire) != items) backoff.Pause();
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
  state.context = context;
  state.invoke = invoke;
  for (int64_t first = 0; first < items; first += kMaxLoopItems) {
    state.RunLoop(first, std::min(kMaxLoopItems, items - first));
  }
}

}  // namespace pergola
