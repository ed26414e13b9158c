#include "gateway/replica_set.h"

#include <algorithm>
#include <utility>

#include "gateway/replica_set_state.h"

namespace pergola::gateway {
namespace {

using service::Clock;
using service::InferenceOutput;
using service::InferenceRequest;
using service::ModelInfo;

constexpr const char* kNoServer = "no server of the model can be reached";

// Whether the replica, not the request, is at fault for certain.
bool IsGone(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDataLoss ||
         code == StatusCode::kUnknown || code == StatusCode::kUnauthenticated;
}

// Whether another replica may do better.
bool MayRetry(StatusCode code) {
  return IsGone(code) || code == StatusCode::kInternal || code == StatusCode::kResourceExhausted;
}

}  // namespace

ReplicaSet::State::State(ModelInfo info, std::vector<Replica> replicas,
                         const ReplicaSetOptions& options)
    : info_(std::move(info)),
      options_(options),
      promised_(options.max_promised_bytes),
      latencies_(options.hedge_quantile),
      random_(static_cast<std::minstd_rand::result_type>(options.seed)),
      retry_budget_(options.retry_burst),
      hedge_budget_(options.hedge_burst) {
  for (Replica& replica : replicas) AddMember(std::move(replica));
}

void ReplicaSet::State::Stop() {
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (const Members* members : {&members_, &leaving_}) {
      for (const auto& member : *members) {
        for (const AttemptPtr& attempt : member->open) later.cancel.push_back(attempt->cancel);
      }
    }
  }
  changed_.notify_all();
  Do(later);
  watcher_.join();
  Members ended;  // here and not with the last callback, see leaving_
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return calls_ == 0; });
  ended.swap(members_);
  std::move(leaving_.begin(), leaving_.end(), std::back_inserter(ended));
  leaving_.clear();
  lock.unlock();
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
    job->pieces.resize(job->open);
    for (size_t piece = 0; piece < job->pieces.size(); ++piece) {
      if (Member* const member = Choose({})) {
        auto attempt = std::make_shared<Attempt>();
        attempt->job = job;
        attempt->piece = piece;
        Begin(std::move(attempt), member, &later);
      } else {
        job->status = UnavailableError(kNoServer);
        FinishPiece(job, piece, &later);
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
  const Replica& replica = attempt->member->replica;
  InferenceRequest request;
  request.model = replica.model;
  request.outputs = whole.outputs;
  const auto begin = whole.sequences.begin();
  request.sequences.assign(begin + static_cast<int64_t>(attempt->job->cuts[attempt->piece]),
                           begin + static_cast<int64_t>(attempt->job->cuts[attempt->piece + 1]));
  request.priority = whole.priority;
  request.deadline = whole.deadline;
  request.tenant = whole.tenant;
  request.trace = whole.trace;
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
  const std::shared_ptr<service::CancelToken>& cancel = attempt->job->request.cancel;
  if (cancel != nullptr) cancel->Forget(attempt->listener);
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Settle(attempt)) {
      attempt->member->last_answer = Clock::now();
      if (output.ok()) {
        attempt->member->failures_in_row = 0;
        Take(*attempt, std::move(*output), &later);
      } else {
        Fail(*attempt, std::move(output).status(), &later);
      }
    }
  }
  Do(later);
  const std::lock_guard<std::mutex> lock(mutex_);
  EndCall(attempt->member);
}

ReplicaSet::State::Member* ReplicaSet::State::Choose(const std::vector<uint64_t>& tried) {
  std::vector<Member*> from;
  for (const auto& member : members_) {
    const bool fresh = std::find(tried.begin(), tried.end(), member->id) == tried.end();
    if (member->healthy && fresh) from.push_back(member.get());
  }
  if (from.empty() || stopping_) return nullptr;
  const size_t first = random_() % from.size();
  if (from.size() == 1) return from[first];
  const size_t second = (first + 1 + random_() % (from.size() - 1)) % from.size();
  const bool take_second = from[second]->outstanding_tokens < from[first]->outstanding_tokens;
  return from[take_second ? second : first];
}

void ReplicaSet::State::Begin(AttemptPtr attempt, Member* member, Later* later) {
  Job& job = *attempt->job;
  for (size_t index = job.cuts[attempt->piece]; index < job.cuts[attempt->piece + 1]; ++index) {
    attempt->tokens += job.request.sequences[index].tokens();
  }
  attempt->member = member;
  attempt->generation = member->generation;
  attempt->began = Clock::now();
  if (!attempt->hedge) attempt->first_began = attempt->began;
  member->outstanding_tokens += attempt->tokens;
  member->open.insert(attempt);
  ++member->requests;
  ++member->calls;
  ++calls_;
  job.pieces[attempt->piece].open.push_back(attempt);
  if (const auto delay = HedgeDelay(*attempt)) {
    const auto due = hedge_due_.emplace(attempt->began + *delay, attempt);
    if (due == hedge_due_.begin()) changed_.notify_all();
  }
  later->send.push_back(std::move(attempt));
}

bool ReplicaSet::State::Settle(const AttemptPtr& attempt) {
  if (attempt->settled) return false;
  attempt->settled = true;
  attempt->member->outstanding_tokens -= attempt->tokens;
  attempt->member->open.erase(attempt);
  std::vector<AttemptPtr>& open = attempt->job->pieces[attempt->piece].open;
  open.erase(std::find(open.begin(), open.end(), attempt));
  return true;
}

void ReplicaSet::State::Take(const Attempt& attempt, InferenceOutput output, Later* later) {
  Job& job = *attempt.job;
  retry_budget_ = std::min(options_.retry_burst, retry_budget_ + options_.retry_share);
  hedge_budget_ = std::min(options_.hedge_burst, hedge_budget_ + options_.hedge_share);
  if (attempt.hedge) ++hedges_won_;
  // Of a hedge too: without, the slow ones that it saves would leave the quantile, and it would
  // sink and sink.
  if (options_.hedge_quantile > 0) {
    latencies_.Add(attempt.tokens, Clock::now() - attempt.first_began);
  }
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
    service::JoinIdentity(output.rows_identity, &job.output.rows_identity);
  }
  FinishPiece(attempt.job, attempt.piece, later);
}

void ReplicaSet::State::Fail(const Attempt& attempt, Status status, Later* later) {
  Member& member = *attempt.member;
  const bool may_retry = MayRetry(status.code());
  if (may_retry) {
    ++member.failures;
    if (status.code() == StatusCode::kInternal) ++member.failures_in_row;
    const bool at_fault =
        IsGone(status.code()) || member.failures_in_row >= options_.failures_to_eject;
    // What began before the replica came back says nothing of it now.
    if (at_fault && attempt.generation == member.generation) Eject(&member);
  }
  // A hedge is under way: it may do better.
  if (may_retry && !attempt.job->pieces[attempt.piece].open.empty()) return;
  if (may_retry && Retry(attempt, later)) return;
  Job& job = *attempt.job;
  if (job.status.ok()) {
    // Addresses and transport are nobody's business outside.
    job.status = IsGone(status.code()) ? UnavailableError(kNoServer) : std::move(status);
  }
  FinishPiece(attempt.job, attempt.piece, later);
}

bool ReplicaSet::State::Retry(const Attempt& failed, Later* later) {
  auto attempt = std::make_shared<Attempt>();
  attempt->job = failed.job;
  attempt->piece = failed.piece;
  attempt->tried = failed.tried;
  attempt->tried.push_back(failed.member->id);
  if (failed.job->over(Clock::now()) ||
      static_cast<int>(attempt->tried.size()) >= options_.max_attempts) {
    return false;
  }
  Member* const member = Choose(attempt->tried);
  if (member == nullptr) return false;
  if (retry_budget_ < 1) {
    ++retries_refused_;
    return false;
  }
  retry_budget_ -= 1;
  ++retries_;
  Begin(std::move(attempt), member, later);
  return true;
}

void ReplicaSet::State::Hedge(const Attempt& slow, Clock::time_point now, Later* later) {
  if (slow.settled || slow.job->over(now)) return;
  auto attempt = std::make_shared<Attempt>();
  attempt->job = slow.job;
  attempt->piece = slow.piece;
  attempt->hedge = true;
  attempt->first_began = slow.began;
  attempt->tried = slow.tried;
  attempt->tried.push_back(slow.member->id);
  Member* const member = Choose(attempt->tried);
  if (member == nullptr) return;
  if (hedge_budget_ < 1) {
    ++hedges_refused_;
    return;
  }
  hedge_budget_ -= 1;
  ++hedges_;
  Begin(std::move(attempt), member, later);
}

// Answered or failed for good: whoever still computes it does so for nobody.
void ReplicaSet::State::FinishPiece(const std::shared_ptr<Job>& job, size_t piece, Later* later) {
  const std::vector<AttemptPtr> losers = job->pieces[piece].open;
  for (const AttemptPtr& loser : losers) {
    Settle(loser);
    later->cancel.push_back(loser->cancel);
  }
  if (--job->open > 0) return;
  if (!job->status.ok()) job->output = {};
  later->finished.push_back(job);
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

void ReplicaSet::SetReplicas(std::vector<Replica> replicas) {
  state_->SetReplicas(std::move(replicas));
}

std::vector<ModelInfo> ReplicaSet::Models() const { return {state_->info()}; }

int ReplicaSet::healthy() const { return state_->Healthy(); }

std::vector<service::MetricSample> ReplicaSet::Metrics() const { return state_->Metrics(); }

}  // namespace pergola::gateway
