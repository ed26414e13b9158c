// Several replicas of one model as one InferenceService: balanced, retried, ejected and probed.
//
//   ReplicaSet replicas(info, {{"10.0.0.7:42668", remote_a, "minilm"}, ...}, {});
//   replicas.Submit(std::move(request), ...);
//
// Balancing: of two replicas picked at random, the one with fewer tokens outstanding. A long list
// is cut into pieces (list_pieces.h), each sent on its own, and joined in order.
//
// Retries: work is idempotent, so what fails for reasons of the replica (UNAVAILABLE, INTERNAL,
// damaged answers) or is refused by it (RESOURCE_EXHAUSTED) is tried on one that has not failed it
// yet, at most `max_attempts` times in all. A budget that answers fill and retries empty keeps a
// tier in trouble from being asked ever more.
//
// Ejection: a replica that cannot be reached, answers damaged rows, fails several times in a row or
// answers nothing for `stall_timeout` while work is open gets no more requests, and its open ones
// go elsewhere. It is probed with forward passes of two tokens, less and less often, and comes back
// with the first that succeeds. With none left requests fail at once with UNAVAILABLE.
//
// Hedging (off unless `hedge_after` or `hedge_quantile` is set): see the options. It costs work
// twice, so a budget of its own bounds it.
//
// Which replica computes changes no bit as long as all have one numeric class.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/list_pieces.h"
#include "service/inference_service.h"
#include "service/metric_sample.h"

namespace pergola::gateway {

struct ReplicaSetOptions {
  PieceLimits pieces;
  int64_t max_promised_bytes = int64_t{2} << 30;  // service/promised_bytes.h
  int max_attempts = 3;
  // Retries per answered request in the long run, and how many at once.
  double retry_share = 0.2;
  double retry_burst = 1000;
  int failures_to_eject = 5;  // INTERNAL in a row
  // What is not answered after so long is also asked of another replica; the first answer counts
  // and the other is cancelled. 0: never. Hedges per answered request in the long run, and at once.
  std::chrono::milliseconds hedge_after{0};
  // The same after this quantile (0.95) of the latencies of late, by size of the request, from when
  // there are enough of them (latency_quantile.h); until then hedge_after counts. 0: never.
  double hedge_quantile = 0;
  double hedge_share = 0.05;
  double hedge_burst = 100;
  std::chrono::milliseconds stall_timeout{15000};
  std::chrono::milliseconds probe_timeout{2000};
  std::chrono::milliseconds min_probe_pause{100};  // doubled after each failed probe
  std::chrono::milliseconds max_probe_pause{2000};
  uint64_t seed = 1;  // of the random picks
};

struct Replica {
  std::string name;  // for people and metrics
  // Second owner: whoever connected it.
  std::shared_ptr<service::InferenceService> service;
  std::string model;  // what the replica calls the model
};

// Thread-safe.
class ReplicaSet : public service::InferenceService {
 public:
  // `info`: the model as it is offered. `replicas`: at least one.
  ReplicaSet(service::ModelInfo info, std::vector<Replica> replicas,
             const ReplicaSetOptions& options);
  // Cancels what is open and waits until it is called back.
  ~ReplicaSet() override;

  void Submit(service::InferenceRequest request, service::InferenceCallback done) override;
  std::vector<service::ModelInfo> Models() const override;

  // These and no others from now on. One that was there before, by name and service, stays as it
  // is; a new one gets requests at once; one that is left out gets none any more, and what is open
  // there is still waited for (or tried elsewhere when it fails). May be none: UNAVAILABLE then.
  void SetReplicas(std::vector<Replica> replicas);

  // Replicas that get requests now.
  int healthy() const;
  // Label "replica" where it is of one.
  std::vector<service::MetricSample> Metrics() const;

 private:
  class State;
  // Second owners: callbacks of replicas.
  std::shared_ptr<State> state_;
};

}  // namespace pergola::gateway
