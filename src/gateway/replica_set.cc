#include "gateway/replica_set.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "service/probe.h"
#include "service/promised_bytes.h"

namespace pergola::gateway {
namespace {

using service::CancelToken;
using service::Clock;
using service::InferenceOutput;
using service::InferenceRequest;
using service::ModelInfo;

constexpr const char* kNoServer = "no server of the model can be reached";

// Whether the replica, not the request, is at fault for certain.
bool IsGone(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDataLoss ||
         code == StatusCode::kUnknown;
}

// Whether another replica may do better.
bool MayRetry(StatusCode code) {
  return IsGone(code) || code == StatusCode::kInternal || code == StatusCode::kResourceExhausted;
}

}  // namespace

class ReplicaSet::State : public std::enable_shared_from_this<State> {
 public:
  State(ModelInfo info, std::vector<Replica> replicas, const ReplicaSetOptions& options);
  void Start() {
    watcher_ = std::thread([this] { Watch(); });
  }
  void Stop();

  void Submit(InferenceRequest request, service::InferenceCallback done);
  const ModelInfo& info() const { return info_; }
  int Healthy() const;
  std::vector<service::MetricSample> Metrics() const;

 private:
  // One request of a caller; `output`, `open` and `status` are guarded by the state's mutex.
  struct Job {
    InferenceRequest request;
    service::InferenceCallback done;
    std::vector<size_t> cuts;
    InferenceOutput output;
    size_t open = 0;  // pieces not yet answered
    Status status;    // of the first piece that failed
    bool cancelled() const { return request.cancel != nullptr && request.cancel->cancelled(); }
  };
  // One piece of a job at one replica.
  struct Attempt {
    std::shared_ptr<Job> job;
    size_t piece = 0;
    size_t replica = 0;
    std::vector<size_t> tried;  // replicas that have failed it
    int64_t tokens = 0;
    uint64_t generation = 0;  // of the replica, when it began
    Clock::time_point began;
    bool settled = false;  // answered, or given up
    // Second owner: the replica's service.
    std::shared_ptr<CancelToken> cancel = std::make_shared<CancelToken>();
    CancelToken::ListenerId listener = 0;
  };
  using AttemptPtr = std::shared_ptr<Attempt>;
  struct Member {
    Replica replica;
    bool healthy = true;
    uint64_t generation = 0;  // changes with `healthy`
    int64_t outstanding_tokens = 0;
    std::set<AttemptPtr> open;
    int failures_in_row = 0;
    Clock::time_point last_answer = Clock::now();
    // While not healthy.
    bool probing = false;
    Clock::time_point next_probe;
    Clock::duration probe_pause{};
    // Metrics.
    uint64_t requests = 0;
    uint64_t failures = 0;
    uint64_t ejections = 0;
  };
  // Things to do once the mutex is free.
  struct Later {
    std::vector<AttemptPtr> send;
    std::vector<std::shared_ptr<Job>> finished;
    std::vector<std::shared_ptr<CancelToken>> cancel;
  };

  void Do(const Later& later);
  void Send(const AttemptPtr& attempt);
  void OnAnswer(const AttemptPtr& attempt, Result<InferenceOutput> output);
  void Watch();
  void Probe(size_t index);
  void OnProbe(size_t index, const Result<InferenceOutput>& output);

  // All of these with mutex_ held.
  // A healthy replica that is not among `tried`.
  std::optional<size_t> Choose(const std::vector<size_t>& tried);
  void Begin(AttemptPtr attempt, size_t replica, Later* later);
  // False: it was before.
  bool Settle(const AttemptPtr& attempt);
  void Take(const Attempt& attempt, InferenceOutput output, Later* later);
  void Fail(const Attempt& attempt, Status status, Later* later);
  // False: not worth it, nobody left to ask, or no budget.
  bool Retry(const Attempt& failed, Later* later);
  void FinishPiece(const std::shared_ptr<Job>& job, Later* later);
  void Eject(size_t index);
  void EjectStalled(Clock::time_point now, Later* later);
  int CountHealthy() const;

  const ModelInfo info_;
  const ReplicaSetOptions options_;
  service::PromisedBytes promised_;

  mutable std::mutex mutex_;  // guards what follows; Member::replica never changes
  std::condition_variable changed_;
  std::vector<Member> members_;
  std::minstd_rand random_;
  double retry_budget_;
  int64_t calls_ = 0;  // to replicas, not yet called back
  uint64_t probes_ = 0;
  uint64_t retries_ = 0;
  uint64_t retries_refused_ = 0;
  bool stopping_ = false;
  std::thread watcher_;
};

ReplicaSet::State::State(ModelInfo info, std::vector<Replica> replicas,
                         const ReplicaSetOptions& options)
    : info_(std::move(info)),
      options_(options),
      promised_(options.max_promised_bytes),
      random_(static_cast<std::minstd_rand::result_type>(options.seed)),
      retry_budget_(options.retry_burst) {
  for (Replica& replica : replicas) members_.emplace_back().replica = std::move(replica);
}

void ReplicaSet::State::Stop() {
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (Member& member : members_) {
      for (const AttemptPtr& attempt : member.open) later.cancel.push_back(attempt->cancel);
    }
  }
  changed_.notify_all();
  Do(later);
  watcher_.join();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return calls_ == 0; });
}

void ReplicaSet::State::Submit(InferenceRequest request, service::InferenceCallback done) {
  if (!request.model.empty() && request.model != info_.id) {
    return done(NotFoundError("model '" + request.model + "' is not served here"));
  }
  Result<std::shared_ptr<const void>> promise =
      promised_.Take(service::AnswerBytes(info_, request.outputs, request.sequences));
  if (!promise.ok()) return done(promise.status());
  auto job = std::make_shared<Job>();
  job->request = std::move(request);
  job->done = std::move(done);
  job->output.promise = std::move(*promise);
  job->output.sequences.resize(job->request.sequences.size());
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job->cuts = CutList(info_, job->request, CountHealthy(), options_.pieces);
    job->open = job->cuts.size() - 1;
    for (size_t piece = 0; piece + 1 < job->cuts.size(); ++piece) {
      if (const std::optional<size_t> replica = Choose({})) {
        auto attempt = std::make_shared<Attempt>();
        attempt->job = job;
        attempt->piece = piece;
        Begin(std::move(attempt), *replica, &later);
      } else {
        job->status = UnavailableError(kNoServer);
        FinishPiece(job, &later);
      }
    }
  }
  Do(later);
}

void ReplicaSet::State::Do(const Later& later) {
  for (const auto& cancel : later.cancel) cancel->Cancel();
  for (const AttemptPtr& attempt : later.send) Send(attempt);
  for (const std::shared_ptr<Job>& job : later.finished) {
    if (job->status.ok()) {
      job->done(std::move(job->output));
    } else {
      job->done(job->status);
    }
    job->done = nullptr;
  }
}

void ReplicaSet::State::Send(const AttemptPtr& attempt) {
  const InferenceRequest& whole = attempt->job->request;
  const Replica& replica = members_[attempt->replica].replica;
  InferenceRequest request;
  request.model = replica.model;
  request.outputs = whole.outputs;
  const auto begin = whole.sequences.begin();
  request.sequences.assign(begin + static_cast<int64_t>(attempt->job->cuts[attempt->piece]),
                           begin + static_cast<int64_t>(attempt->job->cuts[attempt->piece + 1]));
  request.priority = whole.priority;
  request.deadline = whole.deadline;
  request.tenant = whole.tenant;
  request.cancel = attempt->cancel;
  if (whole.cancel != nullptr) {
    attempt->listener = whole.cancel->Listen([cancel = attempt->cancel] { cancel->Cancel(); });
  }
  replica.service->Submit(std::move(request),
                          [state = shared_from_this(), attempt](Result<InferenceOutput> output) {
                            state->OnAnswer(attempt, std::move(output));
                          });
}

void ReplicaSet::State::OnAnswer(const AttemptPtr& attempt, Result<InferenceOutput> output) {
  const std::shared_ptr<CancelToken>& cancel = attempt->job->request.cancel;
  if (cancel != nullptr) cancel->Forget(attempt->listener);
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Member& member = members_[attempt->replica];
    if (Settle(attempt)) {
      member.last_answer = Clock::now();
      if (output.ok()) {
        member.failures_in_row = 0;
        Take(*attempt, std::move(*output), &later);
      } else {
        Fail(*attempt, std::move(output).status(), &later);
      }
    }
  }
  Do(later);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--calls_ == 0) changed_.notify_all();
}

std::optional<size_t> ReplicaSet::State::Choose(const std::vector<size_t>& tried) {
  std::vector<size_t> from;
  for (size_t index = 0; index < members_.size(); ++index) {
    const bool fresh = std::find(tried.begin(), tried.end(), index) == tried.end();
    if (members_[index].healthy && fresh) from.push_back(index);
  }
  if (from.empty() || stopping_) return std::nullopt;
  const size_t first = random_() % from.size();
  if (from.size() == 1) return from[first];
  const size_t second = (first + 1 + random_() % (from.size() - 1)) % from.size();
  const bool take_second =
      members_[from[second]].outstanding_tokens < members_[from[first]].outstanding_tokens;
  return from[take_second ? second : first];
}

void ReplicaSet::State::Begin(AttemptPtr attempt, size_t replica, Later* later) {
  const Job& job = *attempt->job;
  for (size_t index = job.cuts[attempt->piece]; index < job.cuts[attempt->piece + 1]; ++index) {
    attempt->tokens += job.request.sequences[index].tokens();
  }
  Member& member = members_[replica];
  attempt->replica = replica;
  attempt->generation = member.generation;
  attempt->began = Clock::now();
  member.outstanding_tokens += attempt->tokens;
  member.open.insert(attempt);
  ++member.requests;
  ++calls_;
  later->send.push_back(std::move(attempt));
}

bool ReplicaSet::State::Settle(const AttemptPtr& attempt) {
  if (attempt->settled) return false;
  attempt->settled = true;
  Member& member = members_[attempt->replica];
  member.outstanding_tokens -= attempt->tokens;
  member.open.erase(attempt);
  return true;
}

void ReplicaSet::State::Take(const Attempt& attempt, InferenceOutput output, Later* later) {
  Job& job = *attempt.job;
  retry_budget_ = std::min(options_.retry_burst, retry_budget_ + options_.retry_share);
  const size_t first = job.cuts[attempt.piece];
  const size_t count = job.cuts[attempt.piece + 1] - first;
  if (job.status.ok() && output.sequences.size() != count) {
    job.status = InternalError("a server answered " + std::to_string(output.sequences.size()) +
                               " of " + std::to_string(count) + " sequences");
  } else if (job.status.ok()) {
    std::move(output.sequences.begin(), output.sequences.end(),
              job.output.sequences.begin() + static_cast<int64_t>(first));
    job.output.queue_time = std::max(job.output.queue_time, output.queue_time);
    job.output.inference_time += output.inference_time;
    job.output.cache_hits += output.cache_hits;
  }
  FinishPiece(attempt.job, later);
}

void ReplicaSet::State::Fail(const Attempt& attempt, Status status, Later* later) {
  Member& member = members_[attempt.replica];
  const bool may_retry = MayRetry(status.code());
  if (may_retry) {
    ++member.failures;
    if (status.code() == StatusCode::kInternal) ++member.failures_in_row;
    const bool at_fault =
        IsGone(status.code()) || member.failures_in_row >= options_.failures_to_eject;
    // What began before the replica came back says nothing of it now.
    if (at_fault && attempt.generation == member.generation) Eject(attempt.replica);
  }
  if (may_retry && Retry(attempt, later)) return;
  Job& job = *attempt.job;
  if (job.status.ok()) {
    // Addresses and transport are nobody's business outside.
    job.status = IsGone(status.code()) ? UnavailableError(kNoServer) : std::move(status);
  }
  FinishPiece(attempt.job, later);
}

bool ReplicaSet::State::Retry(const Attempt& failed, Later* later) {
  const Job& job = *failed.job;
  auto attempt = std::make_shared<Attempt>();
  attempt->job = failed.job;
  attempt->piece = failed.piece;
  attempt->tried = failed.tried;
  attempt->tried.push_back(failed.replica);
  if (!job.status.ok() || job.cancelled() || Clock::now() >= job.request.deadline ||
      static_cast<int>(attempt->tried.size()) >= options_.max_attempts) {
    return false;
  }
  const std::optional<size_t> replica = Choose(attempt->tried);
  if (!replica) return false;
  if (retry_budget_ < 1) {
    ++retries_refused_;
    return false;
  }
  retry_budget_ -= 1;
  ++retries_;
  Begin(std::move(attempt), *replica, later);
  return true;
}

void ReplicaSet::State::FinishPiece(const std::shared_ptr<Job>& job, Later* later) {
  if (--job->open > 0) return;
  if (!job->status.ok()) job->output = {};
  later->finished.push_back(job);
}

void ReplicaSet::State::Eject(size_t index) {
  Member& member = members_[index];
  member.healthy = false;
  ++member.generation;
  ++member.ejections;
  member.probe_pause = options_.min_probe_pause;
  member.next_probe = Clock::now() + member.probe_pause;
  changed_.notify_all();
}

void ReplicaSet::State::EjectStalled(Clock::time_point now, Later* later) {
  for (size_t index = 0; index < members_.size(); ++index) {
    Member& member = members_[index];
    if (!member.healthy || member.open.empty()) continue;
    Clock::time_point oldest = now;
    for (const AttemptPtr& attempt : member.open) oldest = std::min(oldest, attempt->began);
    if (now - std::max(oldest, member.last_answer) < options_.stall_timeout) continue;
    Eject(index);
    const std::set<AttemptPtr> open = member.open;
    for (const AttemptPtr& attempt : open) {
      Settle(attempt);
      later->cancel.push_back(attempt->cancel);
      Fail(*attempt, UnavailableError("a server does not answer"), later);
    }
  }
}

void ReplicaSet::State::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const Clock::time_point now = Clock::now();
    Clock::time_point wake =
        now + std::min<Clock::duration>(std::chrono::seconds(1), options_.stall_timeout / 8);
    std::vector<size_t> due;
    for (size_t index = 0; index < members_.size(); ++index) {
      Member& member = members_[index];
      if (member.healthy || member.probing) continue;
      if (member.next_probe <= now) {
        member.probing = true;
        ++calls_;
        due.push_back(index);
      } else {
        wake = std::min(wake, member.next_probe);
      }
    }
    Later later;
    EjectStalled(now, &later);
    lock.unlock();
    Do(later);
    for (const size_t index : due) Probe(index);
    lock.lock();
    if (!stopping_ && due.empty()) changed_.wait_until(lock, wake);
  }
}

void ReplicaSet::State::Probe(size_t index) {
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = probes_++;
  }
  InferenceRequest request = service::MakeProbe(info_, number);
  request.model = members_[index].replica.model;
  request.deadline = Clock::now() + options_.probe_timeout;
  members_[index].replica.service->Submit(
      std::move(request),
      [state = shared_from_this(), index](const Result<InferenceOutput>& output) {
        state->OnProbe(index, output);
      });
}

void ReplicaSet::State::OnProbe(size_t index, const Result<InferenceOutput>& output) {
  const OutputKind kind =
      info_.has(OutputKind::kEmbedding) ? OutputKind::kEmbedding : OutputKind::kLogits;
  // A server of another model in its place is no replica.
  const bool well = output.ok() && output->sequences.size() == 1 &&
                    (*output->sequences[0])[kind].width == info_.width(kind);
  const std::lock_guard<std::mutex> lock(mutex_);
  Member& member = members_[index];
  member.probing = false;
  if (well) {
    member.healthy = true;
    ++member.generation;
    member.failures_in_row = 0;
    member.last_answer = Clock::now();
  } else {
    member.probe_pause =
        std::min<Clock::duration>(2 * member.probe_pause, options_.max_probe_pause);
    member.next_probe = Clock::now() + member.probe_pause;
  }
  --calls_;
  changed_.notify_all();
}

int ReplicaSet::State::CountHealthy() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), [](const Member& m) { return m.healthy; }));
}

int ReplicaSet::State::Healthy() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return CountHealthy();
}

std::vector<service::MetricSample> ReplicaSet::State::Metrics() const {
  using service::MetricKind;
  std::vector<service::MetricSample> samples;
  const auto add = [&](const char* name, const char* help, MetricKind kind, double value,
                       const Member* of = nullptr) {
    service::MetricSample& sample = samples.emplace_back();
    sample.name = name;
    sample.help = help;
    sample.kind = kind;
    sample.value = value;
    if (of != nullptr) sample.labels.emplace_back("replica", of->replica.name);
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Member& member : members_) {
    add("pergola_replica_healthy", "1 if the replica gets requests.", MetricKind::kGauge,
        member.healthy ? 1 : 0, &member);
    add("pergola_replica_outstanding_tokens", "Tokens sent to the replica and not yet answered.",
        MetricKind::kGauge, static_cast<double>(member.outstanding_tokens), &member);
    add("pergola_replica_requests_total", "Requests, or pieces of them, sent to the replica.",
        MetricKind::kCounter, static_cast<double>(member.requests), &member);
    add("pergola_replica_failures_total", "Those that failed for reasons of the replica.",
        MetricKind::kCounter, static_cast<double>(member.failures), &member);
    add("pergola_replica_ejections_total", "Times that the replica was taken out.",
        MetricKind::kCounter, static_cast<double>(member.ejections), &member);
  }
  add("pergola_retries_total", "Requests, or pieces of them, sent to another replica.",
      MetricKind::kCounter, static_cast<double>(retries_));
  add("pergola_retries_refused_total", "Retries that the budget did not allow.",
      MetricKind::kCounter, static_cast<double>(retries_refused_));
  add("pergola_promised_bytes",
      "Bytes of rows promised to requests whose answer is not yet written.", MetricKind::kGauge,
      static_cast<double>(promised_.taken()));
  return samples;
}

ReplicaSet::ReplicaSet(ModelInfo info, std::vector<Replica> replicas,
                       const ReplicaSetOptions& options)
    : state_(std::make_shared<State>(std::move(info), std::move(replicas), options)) {
  state_->Start();
}

ReplicaSet::~ReplicaSet() { state_->Stop(); }

void ReplicaSet::Submit(InferenceRequest request, service::InferenceCallback done) {
  state_->Submit(std::move(request), std::move(done));
}

std::vector<ModelInfo> ReplicaSet::Models() const { return {state_->info()}; }

int ReplicaSet::healthy() const { return state_->Healthy(); }

std::vector<service::MetricSample> ReplicaSet::Metrics() const { return state_->Metrics(); }

}  // namespace pergola::gateway
