#include "grid/router.h"

#include <utility>

#include "grid/part_service.h"
#include "grid/remote_part.h"

namespace pergola::grid {
namespace {

constexpr size_t kMostIdle = 64;  // connections kept per member

// Lends a member's connection, or a new one, for a call.
class Lease {
 public:
  Lease(Member& member, std::chrono::milliseconds timeout) : member_(member) {
    ++member_.in_flight;
    ++member_.calls;
    {
      const std::lock_guard lock(member_.mutex);
      if (!member_.idle.empty()) {
        part_ = std::move(member_.idle.back());
        member_.idle.pop_back();
      }
    }
    if (part_ != nullptr) return;
    const service::GridMemberFacts& facts = member_.facts;
    ExpectedPart expected;
    expected.identity = facts.identity;
    expected.numeric_class = facts.numeric_class;
    expected.hidden_size = facts.hidden_size;
    expected.num_layers = facts.num_layers;
    expected.timeout = timeout;
    part_ = std::make_unique<RemotePart>(facts.url, std::move(expected));
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
  Member& member_;
  std::unique_ptr<RemotePart> part_;
};

// What a shard answers is checked before a client sees it: another one may do better.
Status CheckAnswer(const FrameHeader& request, const FrameHeader& answer,
                   std::span<const std::byte> payload) {
  if (answer.kind != request.kind || answer.argument != request.argument) {
    return DataLossError("the answer is to another request");
  }
  if (answer.type == PayloadType::kBytes) {
    return request.kind == FrameKind::kTop ? OkStatus() : DataLossError("the answer has no rows");
  }
  if (request.kind == FrameKind::kFfn &&
      (answer.type != request.type || answer.rows != request.rows ||
       answer.width != request.width)) {
    return DataLossError("the answer's rows are not shaped as those that were sent");
  }
  if (answer.width == 0 || answer.rows == 0 ||
      RowsBytes(answer.type, answer.rows, answer.width) != payload.size()) {
    return DataLossError("the answer's rows have the wrong length");
  }
  std::vector<float> rows(uint64_t{answer.rows} * answer.width);
  const Status status =
      DecodeRows(answer, payload, F32Matrix(rows.data(), answer.rows, answer.width));
  return status.ok() ? status : DataLossError(status.message());
}

}  // namespace

Status Router::Handle(const FrameHeader& request, std::span<const std::byte> payload,
                      std::string* answer) {
  if (request.answer) return InvalidArgumentError("an answer came as a request");
  if (request.kind == FrameKind::kStats) return Stats(request, answer);
  const std::shared_ptr<const MemberList> members = topology_.members();
  if (!members->empty()) {
    const std::string& identity = members->front()->facts.identity;
    if (request.identity != ShortIdentityOf(identity)) {
      return FailedPreconditionError("the request is for another model, this grid is of " +
                                     identity);
    }
  }
  std::vector<MemberPtr> tried;
  std::string failed;
  for (;;) {
    const MemberPtr member = topology_.Pick(request.kind, request.argument, tried);
    if (member == nullptr) break;
    const size_t before = answer->size();
    const Status status = Forward(request, payload, *member, answer);
    if (status.ok() || !IsTransient(status)) return status;
    ++member->failures;
    answer->resize(before);
    failed += "; " + status.message();
    tried.push_back(member);
  }
  if (!tried.empty()) {
    return UnavailableError("no server of the grid answers" + failed);
  }
  const std::string missing = topology_.Missing();
  if (missing.empty()) return UnimplementedError("no server of the grid answers such a request");
  return UnavailableError("no server of the grid has " + missing);
}

Status Router::Forward(const FrameHeader& request, std::span<const std::byte> payload,
                       Member& member, std::string* answer) {
  Lease lease(member, timeout_);
  std::string frame;
  AppendBytesFrame(request, {reinterpret_cast<const char*>(payload.data()), payload.size()},
                   &frame);
  FrameHeader header;
  std::vector<std::byte> rows;
  // A member that is not what it announced says nothing about the request: another one may do.
  const Status opened = lease.part().Open();
  if (!opened.ok()) return UnavailableError(member.facts.url + ": " + opened.message());
  PERGOLA_RETURN_IF_ERROR(lease.part().Call(frame, request.request_id, &header, &rows));
  PERGOLA_RETURN_IF_ERROR(CheckAnswer(request, header, rows).WithContext(member.facts.url));
  AppendBytesFrame(header, {reinterpret_cast<const char*>(rows.data()), rows.size()}, answer);
  return OkStatus();
}

Status Router::Stats(FrameHeader header, std::string* answer) const {
  const std::shared_ptr<const MemberList> members = topology_.members();
  const std::string missing = topology_.Missing();
  if (members->empty() || !missing.empty()) {
    return UnavailableError("no server of the grid has " + missing);
  }
  const service::GridMemberFacts& first = members->front()->facts;
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
