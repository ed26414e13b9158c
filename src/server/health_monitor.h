// Whether each model still answers, for grpc.health.v1: a model serves while forward passes of it
// succeed, those of real requests or else probes of two tokens.
//
//   HealthMonitor health(models, {}, [&](size_t model, bool serving) { ... });
//   health.Start();
//   health.Note(0);   // a request was answered
//
// A model under load is never probed: its answers prove enough.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/served_model.h"

namespace pergola::server {

struct HealthOptions {
  std::chrono::milliseconds fresh{5000};    // a success counts this long
  std::chrono::milliseconds timeout{5000};  // a probe without answer by then has failed
};

// Thread-safe.
class HealthMonitor {
 public:
  // Called on the monitor's thread when the state of `models[index]` changes, and once for each
  // model after its first probe. Until then nothing is known.
  using Report = std::function<void(size_t index, bool serving)>;

  HealthMonitor(std::vector<ServedModel> models, const HealthOptions& options, Report report);
  ~HealthMonitor();

  // Begins to probe and to report. Once.
  void Start();

  // A forward pass of `models[index]` succeeded now.
  void Note(size_t index);

 private:
  struct State;
  void Loop();
  void Probe(size_t index);

  const std::vector<ServedModel> models_;
  const HealthOptions options_;
  const Report report_;
  std::shared_ptr<State> state_;  // second owners: callbacks of probes, which may come late
  std::thread thread_;
};

}  // namespace pergola::server
