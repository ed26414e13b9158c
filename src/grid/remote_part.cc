#include "grid/remote_part.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "grid/answer_check.h"
#include "grid/mismatch.h"

namespace pergola::grid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryPause{100};

// call() until it is done, or fails for good, or `patience` has passed: then as the last time.
template <typename Call>
Status Patiently(std::chrono::milliseconds patience, const Call& call) {
  const Clock::time_point end = Clock::now() + patience;
  for (;;) {
    const Status status = call();
    if (status.ok() || !IsTransient(status) || Clock::now() + kRetryPause >= end) return status;
    std::this_thread::sleep_for(kRetryPause);
  }
}

Status StatusOfErrorFrame(std::span<const std::byte> payload, const std::string& endpoint) {
  uint32_t code = 0;
  if (payload.size() < sizeof code) return DataLossError(endpoint + ": an error without a code");
  std::memcpy(&code, payload.data(), sizeof code);
  const bool known = code >= 1 && code <= 16;
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                endpoint + ": " +
                    std::string(reinterpret_cast<const char*>(payload.data()) + sizeof code,
                                payload.size() - sizeof code));
}

}  // namespace

bool IsTransient(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
    case StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

Status RemotePart::Compare(std::string_view stats) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view identity, numeric_class, mode;
  int64_t hidden_size = 0, num_layers = 0;
  if (parser.parse(stats.data(), stats.size()).get(root) || root["identity"].get(identity) ||
      root["numeric_class"].get(numeric_class) || root["mode"].get(mode) ||
      root["hidden_size"].get(hidden_size) || root["num_layers"].get(num_layers) ||
      root["vocab_size"].get(vocab_size_)) {
    return DataLossError(endpoint_ + ": its stats are not readable");
  }
  if (identity != expected_.identity) {
    return MismatchError(endpoint_, "identity", identity, "this part's", expected_.identity);
  }
  if (numeric_class != expected_.numeric_class) {
    return MismatchError(endpoint_, "numeric class", numeric_class, "this part's",
                         expected_.numeric_class);
  }
  if (hidden_size != expected_.hidden_size || num_layers != expected_.num_layers) {
    return DataLossError(endpoint_ + ": its sizes are not those of its identity");
  }
  mode_ = std::string(mode);
  simdjson::dom::array layers;
  layers_ = {0, -1};
  if (root["layers_owned"].get(layers) == simdjson::SUCCESS && layers.size() == 2) {
    if (layers.at(0).get(layers_.first) || layers.at(1).get(layers_.last) || layers_.first < 0 ||
        layers_.last >= num_layers) {
      return DataLossError(endpoint_ + ": it states layers that the model has not");
    }
  }
  return OkStatus();
}

CallLimit RemotePart::NextLimit() const {
  return limit_ ? *limit_ : CallLimit{.deadline = Clock::now() + expected_.timeout};
}

Status RemotePart::AskStats(FrameHeader* header, std::vector<std::byte>* payload) {
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kStats}, expected_.key, &frame);
  PERGOLA_RETURN_IF_ERROR(connection_.Send(frame).WithContext(endpoint_));
  PERGOLA_RETURN_IF_ERROR(connection_.Receive(header, payload).WithContext(endpoint_));
  if (header->kind == FrameKind::kError) return StatusOfErrorFrame(*payload, endpoint_);
  if (header->kind == FrameKind::kStats && header->answer) return OkStatus();
  return DataLossError(endpoint_ + ": it does not answer with its stats");
}

Status RemotePart::Open() {
  if (connection_.open()) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(connection_,
                           FrameConnection::Connect(endpoint_, NextLimit(), expected_.tls.get()));
  FrameHeader header;
  std::vector<std::byte> payload;
  Status status = AskStats(&header, &payload);
  if (status.ok()) {
    status = Compare({reinterpret_cast<const char*>(payload.data()), payload.size()});
  }
  if (!status.ok()) connection_.Close();
  return status;
}

Status RemotePart::Send(std::string_view frame) {
  PERGOLA_RETURN_IF_ERROR(Open());
  connection_.SetLimit(NextLimit());
  sent_at_ = Clock::now();
  times_.sent_bytes += frame.size();
  ++times_.calls;
  const Status status = connection_.Send(frame);
  if (!status.ok()) connection_.Close();
  return status.WithContext(endpoint_);
}

Status RemotePart::Receive(uint64_t id, FrameHeader* header, std::vector<std::byte>* payload) {
  Status status = connection_.Receive(header, payload);
  times_.waited += Clock::now() - sent_at_;
  if (status.ok() && (!header->answer || header->request_id != id)) {
    status = DataLossError("the answer is to another request");
  }
  if (!status.ok()) {
    connection_.Close();
    return status.WithContext(endpoint_);
  }
  times_.received_bytes += kFrameHeaderBytes + payload->size();
  if (header->kind == FrameKind::kError) return StatusOfErrorFrame(*payload, endpoint_);
  times_.computed += std::chrono::microseconds(header->time);
  return OkStatus();
}

Status RemotePart::Call(std::string_view frame, uint64_t id, FrameHeader* header,
                        std::vector<std::byte>* payload) {
  Status status = Send(frame);
  if (status.ok()) status = Receive(id, header, payload);
  if (status.ok() || !IsTransient(status)) return status;
  if (status.code() == StatusCode::kDeadlineExceeded) return status;  // it would be as slow again
  PERGOLA_RETURN_IF_ERROR(Send(frame));
  return Receive(id, header, payload);
}

Result<std::unique_ptr<RemoteFfn>> RemoteFfn::Connect(const std::vector<FfnServer>& servers,
                                                      const ExpectedPart& expected,
                                                      PayloadType type) {
  std::unique_ptr<RemoteFfn> remote;
  PERGOLA_RETURN_IF_ERROR(Patiently(expected.patience, [&]() -> Status {
    PERGOLA_ASSIGN_OR_RETURN(remote, ConnectOnce(servers, expected, type));
    return OkStatus();
  }));
  return remote;
}

Result<std::unique_ptr<RemoteFfn>> RemoteFfn::ConnectOnce(const std::vector<FfnServer>& servers,
                                                          const ExpectedPart& expected,
                                                          PayloadType type) {
  std::unique_ptr<RemoteFfn> remote(new RemoteFfn);
  remote->type_ = type;
  remote->num_layers_ = expected.num_layers;
  remote->patience_ = expected.patience;
  remote->owners_.resize(static_cast<size_t>(expected.num_layers));
  std::string failed;
  for (const FfnServer& server : servers) {
    auto part = std::make_unique<RemotePart>(server.endpoint, expected);
    const Status status = part->Open();
    if (!status.ok() && !IsTransient(status)) return status;
    if (!status.ok()) {
      failed += "; " + status.message();
      continue;
    }
    PERGOLA_RETURN_IF_ERROR(remote->Add(std::move(part), server));
  }
  PERGOLA_RETURN_IF_ERROR(remote->CheckGaps(failed));
  return remote;
}

Status RemoteFfn::Add(std::unique_ptr<RemotePart> part, const FfnServer& server) {
  const models::LayerRange held = part->layers();
  const models::LayerRange used = server.layers.value_or(held);
  if (server.layers && (!held.Has(used.first) || !held.Has(used.last))) {
    const std::string has = held.size() > 0
                                ? "has the feed-forward layers " + std::to_string(held.first) +
                                      "-" + std::to_string(held.last)
                                : "has no feed-forward layers";
    return FailedPreconditionError(server.endpoint + " " + has + ", it is named for " +
                                   std::to_string(used.first) + "-" + std::to_string(used.last));
  }
  for (int64_t layer = used.first; layer <= used.last; ++layer) {
    owners_[static_cast<size_t>(layer)].push_back(part.get());
  }
  parts_.push_back(std::move(part));
  return OkStatus();
}

Status RemoteFfn::CheckGaps(const std::string& failed) const {
  std::string missing;
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    if (!owners_[static_cast<size_t>(layer)].empty()) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(layer);
  }
  if (missing.empty()) return OkStatus();
  return UnavailableError("no server has the feed-forward layers " + missing + failed);
}

Status RemoteFfn::Start(int64_t layer, ConstF32Matrix x, F32Matrix y) {
  frame_.clear();
  y_ = y;
  id_ = next_id_++;
  RemotePart& part = *owners_[static_cast<size_t>(layer)].front();
  FrameHeader header{.kind = FrameKind::kFfn, .type = type_};
  header.identity = part.identity();
  header.request_id = id_;
  header.argument = static_cast<uint32_t>(layer);
  header.time = part.stated_time();
  PERGOLA_RETURN_IF_ERROR(AppendRowsFrame(header, x, &frame_));
  sent_ = part.Send(frame_);
  return OkStatus();
}

Status RemoteFfn::Decode(const FrameHeader& header, int64_t layer, RemotePart& part) {
  if (header.kind != FrameKind::kFfn || header.argument != static_cast<uint32_t>(layer)) {
    return DataLossError(part.endpoint() + ": the answer is of another layer");
  }
  // What a server sent wrongly another one may send rightly.
  const Status status = DecodeRows(header, payload_, y_);
  return status.ok() ? status : DataLossError(part.endpoint() + ": " + status.message());
}

Status RemoteFfn::Finish(int64_t layer) {
  RemotePart& part = *owners_[static_cast<size_t>(layer)].front();
  FrameHeader header;
  Status status = sent_;
  if (status.ok()) status = part.Receive(id_, &header, &payload_);
  if (status.ok()) status = Decode(header, layer, part);
  if (status.ok()) return status;
  return IsTransient(status) ? CallAny(layer, status) : status;
}

// The owner in use, once more, then the others; who answers is in use from now on.
Status RemoteFfn::TryOwners(int64_t layer, std::string* failed) {
  std::vector<RemotePart*>& owners = owners_[static_cast<size_t>(layer)];
  FrameHeader header;
  for (size_t index = 0; index < owners.size(); ++index) {
    RemotePart& part = *owners[index];
    Status status = part.Send(frame_);
    if (status.ok()) status = part.Receive(id_, &header, &payload_);
    if (status.ok()) status = Decode(header, layer, part);
    if (status.ok()) {
      std::rotate(owners.begin(), owners.begin() + static_cast<std::ptrdiff_t>(index),
                  owners.end());
      return status;
    }
    if (!IsTransient(status)) return status;
    *failed += "; " + status.message();
  }
  return UnavailableError("feed-forward layer " + std::to_string(layer) +
                          " cannot be computed: " + *failed);
}

Status RemoteFfn::CallAny(int64_t layer, const Status& why) {
  return Patiently(patience_, [&] {
    std::string failed = why.message();
    return TryOwners(layer, &failed);
  });
}

RemoteTimes RemoteFfn::times() {
  RemoteTimes sum;
  for (const auto& part : parts_) {
    const RemoteTimes& each = part->times();
    sum.waited += each.waited;
    sum.computed += each.computed;
    sum.sent_bytes += each.sent_bytes;
    sum.received_bytes += each.received_bytes;
    sum.calls += each.calls;
  }
  return sum;
}

Result<std::unique_ptr<RemoteEmbed>> RemoteEmbed::Connect(const std::string& endpoint,
                                                          const ExpectedPart& expected) {
  std::unique_ptr<RemoteEmbed> remote(new RemoteEmbed(endpoint, expected));
  PERGOLA_RETURN_IF_ERROR(Patiently(expected.patience, [&] { return remote->part_.Open(); }));
  const std::string& mode = remote->part_.mode();
  if (mode == "embed-service" || mode == "router") return remote;
  return FailedPreconditionError(endpoint + " is a " + mode + ", expected an embed-service");
}

FrameHeader RemoteEmbed::Header(FrameKind kind) {
  FrameHeader header{.kind = kind};
  header.identity = part_.identity();
  header.request_id = next_id_++;
  header.time = part_.stated_time();
  return header;
}

Status RemoteEmbed::Call(const FrameHeader& request, FrameHeader* answer) {
  PERGOLA_RETURN_IF_ERROR(Patiently(
      patience_, [&] { return part_.Call(frame_, request.request_id, answer, &payload_); }));
  if (answer->kind == request.kind) return OkStatus();
  return DataLossError(part_.endpoint() + ": the answer is of another kind");
}

Status RemoteEmbed::Embed(std::span<const int32_t> ids, F32Matrix rows) {
  FrameHeader request = Header(FrameKind::kEmbed), answer;
  request.rows = static_cast<uint32_t>(ids.size());
  frame_.clear();
  AppendBytesFrame(request, {reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}, &frame_);
  PERGOLA_RETURN_IF_ERROR(Call(request, &answer));
  return DecodeRows(answer, payload_, rows).WithContext(part_.endpoint());
}

Result<engine::TopTokens> RemoteEmbed::Top(ConstF32Matrix residual, int64_t count) {
  FrameHeader request = Header(FrameKind::kTop), answer;
  request.type = PayloadType::kF32;
  request.argument = static_cast<uint32_t>(count);
  frame_.clear();
  PERGOLA_RETURN_IF_ERROR(AppendRowsFrame(request, residual, &frame_));
  PERGOLA_RETURN_IF_ERROR(Call(request, &answer));
  Result<engine::TopTokens> top = ParseTopAnswer(answer, payload_, part_.vocab_size());
  if (!top.ok()) return top.status().WithContext(part_.endpoint());
  return top;
}

Status RemoteEmbed::Logits(ConstF32Matrix residual, std::span<float> logits) {
  FrameHeader request = Header(FrameKind::kLogits), answer;
  request.type = PayloadType::kF32;
  frame_.clear();
  PERGOLA_RETURN_IF_ERROR(AppendRowsFrame(request, residual, &frame_));
  PERGOLA_RETURN_IF_ERROR(Call(request, &answer));
  return DecodeRows(answer, payload_,
                    F32Matrix(logits.data(), 1, static_cast<int64_t>(logits.size())))
      .WithContext(part_.endpoint());
}

}  // namespace pergola::grid
