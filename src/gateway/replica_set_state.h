// The inside of ReplicaSet: requests and their attempts (replica_set.cc), and what a thread of its
// own watches over (replica_watch.cc). Not for others.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/latency_quantile.h"
#include "gateway/replica_set.h"
#include "service/promised_bytes.h"

namespace pergola::gateway {

class ReplicaSet::State : public std::enable_shared_from_this<State> {
 public:
  State(service::ModelInfo info, std::vector<Replica> replicas, const ReplicaSetOptions& options);
  void Start() {
    watcher_ = std::thread([this] { Watch(); });
  }
  void Stop();

  void Submit(service::InferenceRequest request, service::InferenceCallback done);
  void SetReplicas(std::vector<Replica> replicas);
  const service::ModelInfo& info() const { return info_; }
  int Healthy() const;
  std::vector<service::MetricSample> Metrics() const;

 private:
  using TimePoint = service::Clock::time_point;
  struct Attempt;
  using AttemptPtr = std::shared_ptr<Attempt>;
  struct Piece {
    std::vector<AttemptPtr> open;  // more than one when hedged
  };
  // One request of a caller; all but `request` and `done` are guarded by the state's mutex.
  struct Job {
    service::InferenceRequest request;
    service::InferenceCallback done;
    std::vector<size_t> cuts;
    std::vector<Piece> pieces;
    service::InferenceOutput output;
    size_t open = 0;  // pieces not yet answered
    Status status;    // of the first piece that failed
    // Whether nobody waits for more of it.
    bool over(TimePoint now) const {
      return !status.ok() || now >= request.deadline ||
             (request.cancel != nullptr && request.cancel->cancelled());
    }
  };
  struct Member;
  // One piece of a job at one replica.
  struct Attempt {
    std::shared_ptr<Job> job;
    size_t piece = 0;
    Member* member = nullptr;     // lives while calls of it are open
    std::vector<uint64_t> tried;  // members that have failed it, or are slow with it
    int64_t tokens = 0;
    uint64_t generation = 0;  // of the member, when it began
    TimePoint began;
    TimePoint first_began;  // of a hedge: when the slow one did
    bool hedge = false;
    bool settled = false;  // answered, or given up
    // Second owner: the replica's service.
    std::shared_ptr<service::CancelToken> cancel = std::make_shared<service::CancelToken>();
    service::CancelToken::ListenerId listener = 0;
  };
  struct Member {
    Replica replica;  // never changes
    uint64_t id = 0;  // never used again
    bool healthy = true;
    uint64_t generation = 0;  // changes with `healthy`
    int64_t outstanding_tokens = 0;
    std::set<AttemptPtr> open;
    int64_t calls = 0;  // not yet called back
    int failures_in_row = 0;
    TimePoint last_answer = service::Clock::now();
    // While not healthy.
    bool probing = false;
    TimePoint next_probe;
    service::Clock::duration probe_pause{};
    // Metrics.
    uint64_t requests = 0;
    uint64_t failures = 0;
    uint64_t ejections = 0;
  };
  using Members = std::vector<std::unique_ptr<Member>>;
  // Things to do once the mutex is free.
  struct Later {
    std::vector<AttemptPtr> send;
    std::vector<std::shared_ptr<Job>> finished;
    std::vector<std::shared_ptr<service::CancelToken>> cancel;
  };

  void Do(const Later& later);
  void Send(const AttemptPtr& attempt);
  void OnAnswer(const AttemptPtr& attempt, Result<service::InferenceOutput> output);
  void Watch();
  void Probe(Member* member);
  void OnProbe(Member* member, const Result<service::InferenceOutput>& output);

  // All of these with mutex_ held.
  void AddMember(Replica replica);
  // A healthy member that is not among `tried`; null: none.
  Member* Choose(const std::vector<uint64_t>& tried);
  void Begin(AttemptPtr attempt, Member* member, Later* later);
  // False: it was before.
  bool Settle(const AttemptPtr& attempt);
  void Take(const Attempt& attempt, service::InferenceOutput output, Later* later);
  void Fail(const Attempt& attempt, Status status, Later* later);
  // False: not worth it, nobody left to ask, or no budget.
  bool Retry(const Attempt& failed, Later* later);
  // Asks another member too, if that is worth it and the budget allows.
  void Hedge(const Attempt& slow, TimePoint now, Later* later);
  // After what time the attempt is hedged; nullopt: never.
  std::optional<service::Clock::duration> HedgeDelay(const Attempt& attempt) const;
  void HedgeDue(TimePoint now, Later* later);
  void FinishPiece(const std::shared_ptr<Job>& job, size_t piece, Later* later);
  void Eject(Member* member);
  void EjectStalled(TimePoint now, Later* later);
  // When the watcher must look again at the latest, and the members to probe now.
  TimePoint NextWake(TimePoint now, std::vector<Member*>* probe);
  Members TakeGone();
  void EndCall(Member* member);
  int CountHealthy() const;

  const service::ModelInfo info_;
  const ReplicaSetOptions options_;
  service::PromisedBytes promised_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Members members_;
  // No replicas any more, but with open calls. They end on the watcher's thread: on one of a
  // service's own its end would wait for itself.
  Members leaving_;
  LatencyQuantile latencies_;
  std::multimap<TimePoint, std::weak_ptr<Attempt>> hedge_due_;
  std::minstd_rand random_;
  double retry_budget_;
  double hedge_budget_;
  int64_t calls_ = 0;  // to replicas, not yet called back
  uint64_t next_member_ = 1;
  uint64_t probes_ = 0;
  uint64_t retries_ = 0;
  uint64_t retries_refused_ = 0;
  uint64_t hedges_ = 0;
  uint64_t hedges_won_ = 0;
  uint64_t hedges_refused_ = 0;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace pergola::gateway
