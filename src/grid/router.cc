#include "grid/router.h"

#include <algorithm>
#include <utility>

#include "grid/answer_check.h"
#include "grid/part_service.h"
#include "grid/remote_part.h"

namespace pergola::grid {
namespace {

constexpr size_t kMostIdle = 64;  // connections kept per member

// Lends a member's connection, or a new one, for a call.
class Lease {
 public:
  Lease(Member& member, const CallLimit& limit, const std::shared_ptr<const FrameTls>& tls)
      : member_(member) {
    ++member_.in_flight;
    ++member_.calls;
    {
      const std::lock_guard lock(member_.mutex);
      if (!member_.idle.empty()) {
        part_ = std::move(member_.idle.back());
        member_.idle.pop_back();
      }
    }
    if (part_ == nullptr) part_ = Connection(tls);
    part_->SetLimit(limit);
  }
  ~Lease() {
    --member_.in_flight;
    const std::lock_guard lock(member_.mutex);
    if (member_.idle.size() < kMostIdle) member_.idle.push_back(std::move(part_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  RemotePart& part() { return *part_; }

 private:
  std::unique_ptr<RemotePart> Connection(const std::shared_ptr<const FrameTls>& tls) const {
    const service::GridMemberFacts& facts = member_.facts;
    ExpectedPart expected;
    expected.identity = facts.identity;
    expected.numeric_class = facts.numeric_class;
    expected.hidden_size = facts.hidden_size;
    expected.num_layers = facts.num_layers;
    expected.tls = tls;
    expected.key = facts.key;
    return std::make_unique<RemotePart>(facts.url, std::move(expected));
  }

  Member& member_;
  std::unique_ptr<RemotePart> part_;
};

}  // namespace

Status Router::Handle(const FrameHeader& request, std::span<const std::byte> payload,
                      std::string* answer, const service::SplitCall& call) {
  answer->clear();
  if (request.answer) return InvalidArgumentError("an answer came as a request");
  if (request.kind == FrameKind::kStats) return Stats(request, answer);
  const std::shared_ptr<const service::GridMemberFacts> model = topology_.model();
  if (model != nullptr && request.identity != ShortIdentityOf(model->identity)) {
    return FailedPreconditionError("the request is for another model, this grid is of " +
                                   model->identity);
  }
  PERGOLA_RETURN_IF_ERROR(call.Check());
  const auto stated = std::chrono::milliseconds(request.time);
  const auto longest = request.time == 0
                           ? options_.longest_request
                           : std::min<std::chrono::milliseconds>(stated, options_.longest_request);
  const SteadyTime end = std::min(std::chrono::steady_clock::now() + longest, call.deadline);
  std::vector<MemberPtr> tried;
  std::string failed;
  while (tried.empty() || std::chrono::steady_clock::now() < end) {
    size_t others = 0;
    const MemberPtr member = topology_.Pick(request.kind, request.argument, tried, &others);
    if (member == nullptr) break;
    const SteadyTime start = std::chrono::steady_clock::now();
    const CallLimit limit = TryLimit(end, others, call);
    const Status status = Forward(request, payload, *member, limit, answer);
    if (status.code() == StatusCode::kCancelled && cancelled_) {
      answer->clear();
      return UnavailableError("the router is stopping");  // a client that waits asks the next one
    }
    if (status.ok()) member->shunned_until = SteadyTime::min();
    if (status.ok() || !IsTransient(status)) return status;
    if (AtFault(start, limit.deadline, end)) {
      ++member->failures;
      member->shunned_until = std::chrono::steady_clock::now() + options_.shun;
    }
    answer->clear();
    failed += "; " + status.message();
    tried.push_back(member);
  }
  if (!tried.empty()) {
    PERGOLA_RETURN_IF_ERROR(call.Check());
    // Limits are told and waited for in whole milliseconds: less is no time for another try.
    if (call.deadline - std::chrono::steady_clock::now() < std::chrono::milliseconds(1)) {
      return DeadlineExceededError("the time of the call is over" + failed);
    }
    return UnavailableError("no server of the grid answers" + failed);
  }
  const std::string missing = topology_.Missing();
  if (missing.empty()) return UnimplementedError("no server of the grid answers such a request");
  return UnavailableError("no server of the grid has " + missing);
}

CallLimit Router::TryLimit(SteadyTime end, size_t others, const service::SplitCall& call) const {
  CallLimit limit{.deadline = end, .cancel = &cancelled_, .caller = call.cancel};
  if (others == 0) return limit;
  const SteadyTime now = std::chrono::steady_clock::now();
  const auto half = std::chrono::duration_cast<std::chrono::milliseconds>(end - now) / 2;
  limit.deadline = now + std::min(half, options_.longest_try);
  return limit;
}

// Whether a try from `start` on that failed speaks against the member. One that ended with `limit`
// need not: all tries end with the request, at `end`, and a short one leaves little to each.
bool Router::AtFault(SteadyTime start, SteadyTime limit, SteadyTime end) const {
  // Limits are told and waited for in whole milliseconds, rounded down.
  constexpr std::chrono::milliseconds kRounding(2);
  const SteadyTime now = std::chrono::steady_clock::now() + kRounding;
  if (now < limit) return true;
  return limit - start >= (now < end ? options_.fair_try : options_.longest_try);
}

Status Router::Forward(FrameHeader request, std::span<const std::byte> payload, Member& member,
                       const CallLimit& limit, std::string* answer) {
  const service::GridMemberFacts& facts = member.facts;
  Lease lease(member, limit, options_.tls);
  // A member that is not what it announced says nothing about the request: another one may do.
  const Status opened = lease.part().Open();
  if (opened.code() == StatusCode::kCancelled) return opened;
  if (!opened.ok()) return UnavailableError(facts.url + ": " + opened.message());
  std::string frame;
  // 0 would say that there is no limit.
  request.time = static_cast<uint32_t>(
      std::max<int64_t>(1, limit.Remaining(options_.longest_request).count()));
  AppendBytesFrame(request, {reinterpret_cast<const char*>(payload.data()), payload.size()},
                   &frame);
  FrameHeader header;
  std::vector<std::byte> rows;
  PERGOLA_RETURN_IF_ERROR(lease.part().Call(frame, request.request_id, &header, &rows));
  PERGOLA_RETURN_IF_ERROR(CheckAnswer(request, header, rows, {facts.hidden_size, facts.vocab_size})
                              .WithContext(facts.url));
  AppendBytesFrame(header, {reinterpret_cast<const char*>(rows.data()), rows.size()}, answer);
  return OkStatus();
}

Status Router::Stats(FrameHeader header, std::string* answer) const {
  const std::shared_ptr<const MemberList> members = topology_.members();
  const std::shared_ptr<const service::GridMemberFacts> model = topology_.model();
  const std::string missing = topology_.Missing();
  if (model == nullptr || !missing.empty()) {
    return UnavailableError("no server of the grid has " + missing);
  }
  const service::GridMemberFacts& first = *model;
  PartFacts facts;
  facts.mode = "router";
  facts.model = first.model;
  facts.identity = first.identity;
  facts.numeric_class = first.numeric_class;
  facts.hidden_size = first.hidden_size;
  facts.vocab_size = first.vocab_size;
  facts.num_layers = first.num_layers;
  facts.layers = {0, first.num_layers - 1};
  for (const MemberPtr& member : *members) {
    if (member->facts.embed) facts.embed_scale = member->facts.embed_scale;
  }
  header.answer = true;
  header.type = PayloadType::kBytes;
  header.rows = header.width = 0;
  header.identity = ShortIdentityOf(facts.identity);
  AppendBytesFrame(header, FactsJson(facts), answer);
  return OkStatus();
}

}  // namespace pergola::grid
