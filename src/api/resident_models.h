// Which models of a process have their weights in memory: loads them when they are asked for,
// drops them when nobody has for as long as they were to be kept, and holds a budget of memory.
//
//   ResidentModels::Options options{.budget_bytes = int64_t{4} << 30};
//   auto all = std::make_shared<ResidentModels>(options);
//   auto model = all->Add("all-MiniLM-L6-v2", bytes, std::move(runner), load);
//   model->Begin(); ... model->Acquire() ... model->End({});   // resident_service.h does
//   all->UnloadExpired();                                      // every now and then
//
// A model is idle while none of its requests is in work. Only idle models are unloaded, least
// recently used first where a budget asks for it. Whoever has acquired a runner owns it together
// with the model: unloading takes the model's share away, never memory that is being read.
#pragma once

#include <chrono>
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
  using Load = std::function<Result<RunnerPtr>()>;

  struct Acquired {
    RunnerPtr runner;
    std::chrono::nanoseconds load_time{0};  // 0: it was there
  };
  // Loads the model if it has to; may block long. Of those who come meanwhile none loads it again:
  // they wait, and try anew only if it failed.
  //   UNAVAILABLE  the budget has no room, and no idle model is left to make some
  //   INTERNAL     it cannot be loaded; Options::tell says why. The next one tries again.
  Result<Acquired> Acquire();

  // A request for the model begins; End() must follow.
  void Begin();
  struct Use {
    std::optional<std::chrono::milliseconds> keep_alive = std::nullopt;  // nullopt: the default
    bool probe = false;  // leaves the time at which the weights go as it was
  };
  void End(const Use& use);

  service::Residence residence() const;

 private:
  friend class ResidentModels;
  ResidentModel(ResidentModels& all, std::string id, int64_t bytes, Load load)
      : all_(all), id_(std::move(id)), bytes_(bytes), load_(std::move(load)) {}

  bool idle() const { return requests_ == 0 && !loading_; }  // all_.mutex_ held

  ResidentModels& all_;  // owns this
  const std::string id_;
  const int64_t bytes_;
  const Load load_;

  std::mutex load_mutex_;  // held while loading; before all_.mutex_

  // Guarded by all_.mutex_.
  RunnerPtr runner_;      // null: not loaded
  bool loading_ = false;  // its memory is spoken for
  int64_t requests_ = 0;  // in work
  service::Clock::time_point last_used_;
  service::Clock::time_point expires_;
  uint64_t loads_ = 0;
  uint64_t failed_loads_ = 0;
  uint64_t unloads_ = 0;
  double load_seconds_ = 0;
};

// Thread-safe. Must be owned by a shared_ptr; what Add() returns keeps it.
class ResidentModels : public std::enable_shared_from_this<ResidentModels> {
 public:
  struct Options {
    int64_t budget_bytes = 0;  // of all weights in memory; 0: no limit
    // What a request without its own says.
    std::chrono::milliseconds keep_alive = service::kKeepForever;
    bool on_demand = false;  // models are added without their weights
    std::function<service::Clock::time_point()> now = service::Clock::now;
    // Told what a log should hold, on any thread.
    std::function<void(const std::string&)> tell = [](const std::string&) {};
  };
  explicit ResidentModels(Options options) : options_(std::move(options)) {}

  // A model that was loaded to see what it is; `bytes`: what it takes, `load`: how to get it again.
  // Models added before give way to it if the budget wants that. INVALID_ARGUMENT: it alone takes
  // more than the budget.
  Result<std::shared_ptr<ResidentModel>> Add(std::string id, int64_t bytes, RunnerPtr runner,
                                             ResidentModel::Load load);

  // Unloads the idle models whose time is up, on this thread, which it may hold for a while.
  void UnloadExpired();

  // By model: loads, failed loads and how long they took, unloads, bytes in memory.
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

  int64_t bytes_taken() const;  // mutex_ held
  // Makes room for `model` by unloading idle ones; all or none. UNAVAILABLE. mutex_ held.
  Status MakeRoom(const ResidentModel& model, UnloadedList* unloaded);
  void Unload(ResidentModel& model, std::string reason, UnloadedList* unloaded);  // mutex_ held
  void Release(UnloadedList unloaded) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards the next, and the state of each
  std::vector<std::unique_ptr<ResidentModel>> models_;
};

}  // namespace pergola::api
