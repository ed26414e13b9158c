// Which models of a process have their weights in memory: loads them when they are asked for,
// drops them when nobody has for as long as they were to be kept, and holds a budget of memory.
//
//   ResidentModels::Options options{.budget_bytes = int64_t{4} << 30};
//   auto all = std::make_shared<ResidentModels>(options);
//   auto model = all->Add("all-MiniLM-L6-v2", bytes, std::move(runner), {load, stamp});
//   model->Begin(); ... model->Acquire(need) ... model->End({});   // resident_service.h does
//   all->UnloadExpired();                                          // every now and then
//
// A model is at rest while none of its requests is in work. Only such are unloaded, least recently
// used first where a budget asks for it. Whoever has acquired a runner owns it together with the
// model: unloading takes the model's share away, never memory that is being read.
//
// Where none at rest is left to make room, who needs it waits. Turns go by when requests came, over
// all models: as long as one waits, models in memory whose room it needs (those longest there
// first) finish what came before it, then rest and wait themselves. So a model that is always asked
// for keeps nobody out, and no two models change places more often than that takes.
//
// A load that failed is not tried again for a while, which doubles with each failure. What cannot
// even be opened makes no room for itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "pergola/status.h"
#include "service/inference_service.h"
#include "service/keep_alive.h"
#include "service/metric_sample.h"

namespace pergola::api {

class ResidentModels;

// Second owners: the model while it is loaded, who computes with it.
using RunnerPtr = std::shared_ptr<engine::Runner>;

// One of them. Thread-safe.
class ResidentModel {
 public:
  // Where its weights come from.
  struct Source {
    // Ends with CANCELLED soon after `cancelled`, which it asks now and then, says so.
    std::function<Result<RunnerPtr>(const std::function<bool()>& cancelled)> load;
    // Another text when the files are others, for little work. Null: not known.
    std::function<std::string()> stamp = nullptr;
    // Whether `load` might go well. Null: not known. Asked once for each load, before anything is
    // unloaded for it, and again if `stamp` has changed since.
    std::function<Status()> check = nullptr;
  };

  struct Acquired {
    RunnerPtr runner;                       // null: `missing`
    std::chrono::nanoseconds load_time{0};  // 0: it was there
    Status missing = OkStatus();            // UNAVAILABLE: why there is no room for it yet
  };
  using Need = engine::Runner::Need;
  // Loads the model if it has to; may block long. Waits for room until `need.until` or Wake(). Of
  // those who come meanwhile none loads it again: they wait, and try anew only if it failed.
  //   UNAVAILABLE  StopLoading() was called
  //   INTERNAL     it cannot be loaded; Options::tell says why. Until the time that the message
  //                names, or the files change, nobody tries again.
  Result<Acquired> Acquire(const Need& need);
  // At its turn, whoever waits, and without waiting for room.
  Result<Acquired> Acquire() {
    return Acquire({Clock::time_point::min(), Clock::time_point::min()});
  }

  // Lets an Acquire() that waits for room return, or the next one that would.
  void Wake();

  // A request for the model begins; End() must follow.
  void Begin();
  struct Use {
    std::optional<std::chrono::milliseconds> keep_alive = std::nullopt;  // nullopt: the default
    bool probe = false;  // leaves the time at which the weights go as it was
  };
  void End(const Use& use);
  // As a request that began and ended.
  void Touch(const Use& use);

  service::Residence residence() const;

 private:
  friend class ResidentModels;
  using Clock = service::Clock;
  ResidentModel(ResidentModels& all, std::string id, int64_t bytes, Source source)
      : all_(all), id_(std::move(id)), bytes_(bytes), source_(std::move(source)) {}

  // With load_mutex_.
  Status CheckRetry() const;
  Status CheckSource();
  Status NotLoaded() const;
  Result<Acquired> Load();
  Status NoteFailure(const Status& status, std::string stamp);

  // With all_.mutex_.
  bool idle() const { return requests_ == 0 && !loading_; }
  bool at_rest() const { return idle() || waits_since_.has_value(); }
  void NoteUse(const Use& use);

  ResidentModels& all_;  // owns this
  const std::string id_;
  const int64_t bytes_;
  const Source source_;

  std::mutex load_mutex_;  // held while acquiring; before all_.mutex_. Guards the next.
  struct Failure {
    int in_a_row = 0;  // 0: the last load was good
    Clock::time_point next_try;
    std::string stamp;
  };
  Failure failure_;
  std::optional<std::string> checked_;  // stamp of what passed the check and is yet to be loaded

  // Guarded by all_.mutex_.
  RunnerPtr runner_;      // null: not loaded
  bool loading_ = false;  // its memory is spoken for
  int64_t requests_ = 0;  // in work
  // Set while it waits for room, or has given way: when the oldest of what waits for it came.
  std::optional<Clock::time_point> waits_since_;
  bool woken_ = false;
  Clock::time_point loaded_at_;
  service::Clock::time_point last_used_;
  service::Clock::time_point expires_;
  uint64_t loads_ = 0;
  uint64_t failed_loads_ = 0;
  uint64_t unloads_ = 0;
  double load_seconds_ = 0;
  double wait_seconds_ = 0;
};

// Thread-safe. Must be owned by a shared_ptr; what Add() returns keeps it.
class ResidentModels : public std::enable_shared_from_this<ResidentModels> {
 public:
  struct Options {
    int64_t budget_bytes = 0;  // of all weights in memory; 0: no limit
    // What a request without its own says.
    std::chrono::milliseconds keep_alive = service::kKeepForever;
    bool on_demand = false;  // models are added without their weights
    // From a failed load to the next: the first time, and at most.
    std::chrono::milliseconds first_retry{1000};
    std::chrono::milliseconds last_retry{60'000};
    std::function<service::Clock::time_point()> now = service::Clock::now;
    // Told what a log should hold, on any thread.
    std::function<void(const std::string&)> tell = [](const std::string&) {};
  };
  explicit ResidentModels(Options options) : options_(std::move(options)) {}

  // A model that was loaded to see what it is; `bytes`: what it takes, `source`: how to get it
  // again. Models added before give way to it if the budget wants that. INVALID_ARGUMENT: it alone
  // takes more than the budget.
  Result<std::shared_ptr<ResidentModel>> Add(std::string id, int64_t bytes, RunnerPtr runner,
                                             ResidentModel::Source source);

  // Unloads the idle models whose time is up, on this thread, which it may hold for a while.
  void UnloadExpired();

  // Ends loads under way and begins none any more: who waits for weights is told UNAVAILABLE. What
  // is in memory goes on.
  void StopLoading();

  // By model: loads, failed loads and how long they took, waiting for room, unloads, bytes in
  // memory.
  std::vector<service::MetricSample> Metrics() const;

 private:
  friend class ResidentModel;

  // Models that are no longer loaded but still in memory: until this goes, without the mutex.
  struct Unloaded {
    std::string id;
    std::string reason;
    RunnerPtr runner;
  };
  using UnloadedList = std::vector<Unloaded>;

  // All of these with mutex_ held.
  int64_t bytes_taken() const;
  // Until `model` is loaded or has room to be, which is then its own, or until need.until, Wake()
  // or StopLoading(): UNAVAILABLE. The mutex is free while it waits.
  Status AwaitTurn(ResidentModel& model, const ResidentModel::Need& need,
                   std::unique_lock<std::mutex>& lock, UnloadedList* unloaded);
  Status TakeTurn(ResidentModel& model, service::Clock::time_point oldest, UnloadedList* unloaded);
  // Who of the others waits since before `oldest`, for longest; null: nobody.
  const ResidentModel* FirstWaiting(const ResidentModel& model,
                                    service::Clock::time_point oldest) const;
  // In the order in which they are to give way to `model`: those at rest first.
  std::vector<ResidentModel*> Loaded(const ResidentModel& model) const;
  // Bytes by which `model` would exceed the budget.
  int64_t ExcessOf(const ResidentModel& model) const;
  Status NoRoom(const ResidentModel& model) const;
  // Makes room for `model` by unloading those at rest; all or none. UNAVAILABLE.
  Status MakeRoom(const ResidentModel& model, UnloadedList* unloaded);
  void Unload(ResidentModel& model, std::string reason, UnloadedList* unloaded);

  void Release(UnloadedList unloaded) const;  // without it

  const Options options_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;  // guards the next, and the state of each
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ResidentModel>> models_;
};

}  // namespace pergola::api
