// The in-process InferenceService of one model: admits, caches, queues, batches, runs, completes.
//
//   scheduler::Scheduler scheduler(info, std::move(runner), {});
//   scheduler.Submit(std::move(request), [](auto output) { ... });   // any thread
//   auto output = scheduler.RunBlocking(std::move(request));         // shells, the library face
//
// While one batch runs the next fills (batching_policy.h). The engine is owned through a token: its
// holder runs batches. A thread of the scheduler takes it for Submit; RunBlocking, and Submit where
// it may block, take it themselves when the engine is idle, which saves two thread hand-offs.
//
// Tenants (InferenceRequest::tenant) take turns by tokens (fair_order.h): one that sends a million
// sequences delays another's single one by at most a step and its own.
//
// Equal sequences that wait or run at the same time are computed once (single flight), and
// finished rows are kept in a cache. Neither changes a bit of any answer. CachedService, before
// services that this process does not compute for, has a single flight of its own: here a request
// joins work of the queue, may move it up, and keeps it alive when the first has gone or failed;
// there it joins what has already left with another's priority and deadline. Key and cache are the
// same (result_cache.h).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/runner.h"
#include "scheduler/batching_policy.h"
#include "scheduler/fair_order.h"
#include "scheduler/result_cache.h"
#include "scheduler/result_file.h"
#include "service/inference_service.h"
#include "service/metric_sample.h"
#include "service/promised_bytes.h"

namespace pergola::scheduler {

struct SchedulerOptions {
  // step_tokens 0: what the runner says.
  BatchingOptions batching{.step_tokens = 0};
  size_t cache_bytes = size_t{64} << 20;
  bool single_flight = true;
  // Admission: a request is refused when others wait and together they would exceed this. A lone
  // request of any size is admitted.
  int64_t max_queued_tokens = 1 << 20;
  // See service/promised_bytes.h.
  int64_t max_promised_bytes = int64_t{2} << 30;
};

// Thread-safe.
class Scheduler : public service::InferenceService {
 public:
  Scheduler(service::ModelInfo info, std::unique_ptr<engine::Runner> runner,
            const SchedulerOptions& options);
  // Shuts down: what waits is answered UNAVAILABLE, what runs is finished.
  ~Scheduler() override;

  void Submit(service::InferenceRequest request, service::InferenceCallback done) override;
  std::vector<service::ModelInfo> Models() const override { return {info_}; }

  // Submits and waits; runs batches on the calling thread while the engine is free.
  Result<service::InferenceOutput> RunBlocking(service::InferenceRequest request);

  // Refuses new requests with UNAVAILABLE from now on. Idempotent.
  void StopAccepting();

  // What is computed from now on is also appended to `file`, whose metrics join these.
  void KeepResultsIn(std::unique_ptr<ResultFile> file);
  // Answers `key` from the cache as if it had been computed here.
  void Remember(const SequenceKey& key, StoredOutput output);

  std::vector<service::MetricSample> Metrics() const;

 private:
  struct Request;
  struct Waiter {
    std::shared_ptr<Request> request;
    size_t index;  // of the sequence within the request
  };
  struct Work;
  using WorkPtr = std::shared_ptr<Work>;
  // Callbacks to be made once the mutex is free.
  using Finished = std::vector<std::shared_ptr<Request>>;

  Status Validate(const service::InferenceRequest& request) const;
  Status Admit(int64_t tokens) const;  // mutex_ held
  // Returns with the mutex held: nobody has taken yet what waits now.
  std::unique_lock<std::mutex> Enqueue(service::InferenceRequest request,
                                       service::InferenceCallback done, Finished* finished);
  void EnqueueSequence(const std::shared_ptr<Request>& request, size_t index,
                       Sequence sequence);  // mutex_ held
  void EngineLoop();
  // Until when the next batch waits for company. mutex_ held, the queue not empty.
  service::Clock::time_point CollectUntilNow() const;
  // With mutex_ held (free meanwhile) and the engine idle, until the runner is ready for what waits
  // or nothing does any more: it fails when that is not possible, and when it takes too long.
  void MakeReady(std::unique_lock<std::mutex>& lock, Finished* finished);
  // Of what waits. mutex_ held, the queue not empty.
  engine::Runner::Need NeedNow() const;
  void NoteLoadTime(std::chrono::nanoseconds load_time);  // mutex_ held
  // When a request that waits for the runner to be ready is told that it isn't: soon enough for the
  // answer to come before the deadline.
  static service::Clock::time_point GivesUpAt(const Request& request);
  void FailQueue(const Status& status, Finished* finished);  // mutex_ held
  // With mutex_ held and the engine idle: runs one batch (mutex_ free meanwhile), completes it.
  // Returns who is to be called back, without the mutex: the next batch may run meanwhile. Without
  // memory the process ends, whoever's thread this is: an engine that stayed busy would answer
  // nobody.
  Finished RunOneBatch(std::unique_lock<std::mutex>& lock) noexcept;
  // The same, and calls them back, the mutex free.
  void RunAndCallBack(std::unique_lock<std::mutex>& lock);
  // `missing`: why the runner is not ready, if so; told to those who give up for it. mutex_ held.
  void DropDead(service::Clock::time_point now, const Status& missing, Finished* finished);
  std::vector<WorkPtr> TakeBatch(service::Clock::time_point now);  // mutex_ held
  void Complete(const std::vector<WorkPtr>& batch, const Result<std::unique_ptr<engine::Outputs>>&,
                std::chrono::nanoseconds inference_time, Finished* finished);  // mutex_ held
  using OutputPtr = std::shared_ptr<const service::SequenceOutput>;
  // Copies what the work asked for. INTERNAL: the engine failed, or a value is not finite.
  static Result<OutputPtr> TakeOutput(const Work& work, size_t index,
                                      const Result<std::unique_ptr<engine::Outputs>>& outputs);
  void FinishSequence(Waiter& waiter, const Result<OutputPtr>& output,
                      Finished* finished);                                          // mutex_ held
  void FinishRequest(const std::shared_ptr<Request>& request, Finished* finished);  // mutex_ held
  void Fail(const std::shared_ptr<Request>& request, Status status,
            Finished* finished);  // mutex_ held
  static void CallBack(const Finished& finished);

  const service::ModelInfo info_;
  // Used by the holder of the engine token only, but for Wake().
  const std::unique_ptr<engine::Runner> runner_;
  SchedulerOptions options_;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable engine_wanted_;
  std::condition_variable blocking_done_;
  bool engine_busy_ = false;  // the engine token is taken
  // Until when the runner may wait before it is ready; min(): it does not.
  service::Clock::time_point ready_until_ = service::Clock::time_point::min();
  bool collecting_ = false;  // the engine's thread waits for company of what is queued
  LastStep last_step_;
  bool accepting_ = true;
  bool stopping_ = false;
  FairOrder fair_order_;
  std::deque<WorkPtr> queue_;  // by turn, equal turns in order of arrival
  // Waiting or running work by key, for single flight.
  std::unordered_map<SequenceKey, WorkPtr, SequenceKeyHash> in_flight_;
  ResultCache cache_;
  std::unique_ptr<ResultFile> result_file_;  // may be null
  int64_t queued_tokens_ = 0;
  service::PromisedBytes promised_;
  int64_t blocking_callers_ = 0;

  // Metrics.
  static constexpr std::array<double, 10> kBatchBounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  std::array<uint64_t, kBatchBounds.size() + 1> batch_counts_ = {};
  uint64_t sequences_run_ = 0;
  uint64_t batches_run_ = 0;
  uint64_t tokens_run_ = 0;
  uint64_t cache_hits_ = 0;
  uint64_t cache_misses_ = 0;
  uint64_t joined_ = 0;
  uint64_t refused_ = 0;
  double busy_seconds_ = 0;

  std::thread engine_thread_;
};

}  // namespace pergola::scheduler
