#include <algorithm>
#include <utility>

#include "gateway/replica_set_state.h"
#include "service/probe.h"

namespace pergola::gateway {

using service::Clock;
using service::InferenceOutput;
using service::InferenceRequest;

void ReplicaSet::State::AddMember(Replica replica) {
  auto member = std::make_unique<Member>();
  member->replica = std::move(replica);
  member->id = next_member_++;
  members_.push_back(std::move(member));
}

void ReplicaSet::State::SetReplicas(std::vector<Replica> replicas) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  Members before;
  before.swap(members_);
  for (Replica& replica : replicas) {
    const auto same = std::find_if(before.begin(), before.end(), [&](const auto& member) {
      return member != nullptr && member->replica.name == replica.name &&
             member->replica.service == replica.service;
    });
    if (same == before.end()) {
      AddMember(std::move(replica));
    } else {
      members_.push_back(std::move(*same));
    }
  }
  for (auto& member : before) {
    if (member != nullptr) leaving_.push_back(std::move(member));
  }
  changed_.notify_all();
}

// Those that have left and that nobody calls back any more.
ReplicaSet::State::Members ReplicaSet::State::TakeGone() {
  const auto end = std::partition(leaving_.begin(), leaving_.end(),
                                  [](const auto& member) { return member->calls > 0; });
  Members gone(std::make_move_iterator(end), std::make_move_iterator(leaving_.end()));
  leaving_.erase(end, leaving_.end());
  return gone;
}

void ReplicaSet::State::EndCall(Member* member) {
  const bool left = --member->calls == 0 && !leaving_.empty();
  if (--calls_ == 0 || left) changed_.notify_all();
}

void ReplicaSet::State::Eject(Member* member) {
  member->healthy = false;
  ++member->generation;
  ++member->ejections;
  member->probe_pause = options_.min_probe_pause;
  member->next_probe = Clock::now() + member->probe_pause;
  changed_.notify_all();
}

void ReplicaSet::State::EjectStalled(Clock::time_point now, Later* later) {
  std::vector<Member*> watched;
  for (const Members* members : {&members_, &leaving_}) {
    for (const auto& member : *members) watched.push_back(member.get());
  }
  for (Member* const member : watched) {
    if (!member->healthy || member->open.empty()) continue;
    Clock::time_point oldest = now;
    for (const AttemptPtr& attempt : member->open) oldest = std::min(oldest, attempt->began);
    if (now - std::max(oldest, member->last_answer) < options_.stall_timeout) continue;
    Eject(member);
    const std::set<AttemptPtr> open = member->open;
    for (const AttemptPtr& attempt : open) {
      if (!Settle(attempt)) continue;  // a hedge that failed before took its piece with it
      later->cancel.push_back(attempt->cancel);
      Fail(*attempt, UnavailableError("a server does not answer"), later);
    }
  }
}

std::optional<Clock::duration> ReplicaSet::State::HedgeDelay(const Attempt& attempt) const {
  if (attempt.hedge) return std::nullopt;
  if (options_.hedge_quantile > 0) {
    if (const auto usual = latencies_.Get(attempt.tokens)) return *usual;
  }
  if (options_.hedge_after.count() > 0) return options_.hedge_after;
  return std::nullopt;
}

void ReplicaSet::State::HedgeDue(Clock::time_point now, Later* later) {
  while (!hedge_due_.empty() && hedge_due_.begin()->first <= now) {
    const AttemptPtr slow = hedge_due_.begin()->second.lock();
    hedge_due_.erase(hedge_due_.begin());
    if (slow != nullptr) Hedge(*slow, now, later);
  }
}

Clock::time_point ReplicaSet::State::NextWake(Clock::time_point now, std::vector<Member*>* probe) {
  Clock::time_point wake =
      now + std::min<Clock::duration>(std::chrono::seconds(1), options_.stall_timeout / 8);
  if (!hedge_due_.empty()) wake = std::min(wake, hedge_due_.begin()->first);
  for (const auto& member : members_) {
    if (member->healthy || member->probing) continue;
    if (member->next_probe <= now) {
      member->probing = true;
      ++member->calls;
      ++calls_;
      probe->push_back(member.get());
    } else {
      wake = std::min(wake, member->next_probe);
    }
  }
  return wake;
}

void ReplicaSet::State::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const Clock::time_point now = Clock::now();
    Later later;
    EjectStalled(now, &later);
    HedgeDue(now, &later);
    std::vector<Member*> probe;
    const Clock::time_point wake = NextWake(now, &probe);
    Members gone = TakeGone();
    lock.unlock();
    Do(later);
    gone.clear();
    for (Member* const member : probe) Probe(member);
    lock.lock();
    if (!stopping_ && probe.empty()) changed_.wait_until(lock, wake);
  }
}

void ReplicaSet::State::Probe(Member* member) {
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = probes_++;
  }
  InferenceRequest request = service::MakeProbe(info_, number);
  request.model = member->replica.model;
  request.deadline = Clock::now() + options_.probe_timeout;
  member->replica.service->Submit(std::move(request), [state = shared_from_this(), member](
                                                          const Result<InferenceOutput>& output) {
    state->OnProbe(member, output);
  });
}

void ReplicaSet::State::OnProbe(Member* member, const Result<InferenceOutput>& output) {
  const OutputKind kind =
      info_.has(OutputKind::kEmbedding) ? OutputKind::kEmbedding : OutputKind::kLogits;
  // A server of another model in its place is no replica.
  const bool well = output.ok() && output->sequences.size() == 1 &&
                    (*output->sequences[0])[kind].width == info_.width(kind);
  const std::lock_guard<std::mutex> lock(mutex_);
  member->probing = false;
  if (well) {
    member->healthy = true;
    ++member->generation;
    member->failures_in_row = 0;
    member->last_answer = Clock::now();
  } else {
    member->probe_pause =
        std::min<Clock::duration>(2 * member->probe_pause, options_.max_probe_pause);
    member->next_probe = Clock::now() + member->probe_pause;
  }
  EndCall(member);
  changed_.notify_all();
}

int ReplicaSet::State::CountHealthy() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(),
                                        [](const auto& member) { return member->healthy; }));
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
  for (const auto& each : members_) {
    const Member& member = *each;
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
  add("pergola_hedges_total", "Requests, or pieces of them, also sent to another replica.",
      MetricKind::kCounter, static_cast<double>(hedges_));
  add("pergola_hedges_won_total", "Those that were answered by the other replica.",
      MetricKind::kCounter, static_cast<double>(hedges_won_));
  add("pergola_hedges_refused_total", "Hedges that the budget did not allow.", MetricKind::kCounter,
      static_cast<double>(hedges_refused_));
  add("pergola_promised_bytes",
      "Bytes of rows promised to requests whose answer is not yet written.", MetricKind::kGauge,
      static_cast<double>(promised_.taken()));
  return samples;
}

}  // namespace pergola::gateway
