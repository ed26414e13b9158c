// /readyz and /health: does every served model still answer?
//
// A model is ready when a forward pass of it succeeded within the last seconds: a real request's,
// or else a probe of two tokens, different each time so that no cache answers it. One whose weights
// are not in memory is ready, too: a probe would load them.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "gateway/exchange.h"
#include "gateway/routes.h"

namespace pergola::gateway {

// Thread-safe.
class Readiness {
 public:
  static constexpr std::chrono::seconds kFresh{5};
  static constexpr std::chrono::seconds kProbeTimeout{2};

  // `models` must outlive it.
  explicit Readiness(const std::vector<ServedModel>* models);

  // A forward pass of that model succeeded now.
  void Note(const ServedModel* model);

  // Answers 200 {"status":"ok"}, or 503 with the reason within kProbeTimeout.
  void Answer(std::shared_ptr<Exchange> exchange);

 private:
  struct Probe;

  const std::vector<ServedModel>& models_;
  std::vector<std::atomic<service::Clock::rep>> last_;  // per model: ticks of the last success
  // From another number on than the routes that a reload has replaced: their probes may be in a
  // cache.
  std::atomic<uint64_t> probes_ =
      static_cast<uint64_t>(service::Clock::now().time_since_epoch().count());
};

}  // namespace pergola::gateway
