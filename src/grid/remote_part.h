// A client's view of parts of a language model on other machines: ports for engine::Generator.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto ffn, RemoteFfn::Connect({"10.0.0.2:42700", "10.0.0.3:42700"},
//   expected)); engine::Generator generator(model, {.embed = &embed, .ffn = ffn.get(), .head =
//   &embed});
//
// A connection per server stays open. A call that fails is made again, once on a new connection and
// then on every other server that has the part: all calls are idempotent. What a server states
// about itself is compared when it is connected to: parts of different models, or of different
// arithmetic, are never combined.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/generator.h"
#include "grid/call_limit.h"
#include "grid/frame.h"
#include "grid/frame_connection.h"
#include "grid/frame_tls.h"
#include "models/ffn_port.h"
#include "models/ffn_stack.h"
#include "pergola/status.h"

namespace pergola::grid {

// Another connection or server may do better.
bool IsTransient(const Status& status);

// What a part must be; compared with its stats.
struct ExpectedPart {
  std::string identity;
  std::string numeric_class;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  std::chrono::milliseconds timeout = std::chrono::seconds(5);  // of one try of a call
  // How long a call is made again and again while nobody answers it, for somebody else to take the
  // part over. 0: every server once more, then the error.
  std::chrono::milliseconds patience{0};
  // For servers with TLS, pergolas://; null: there are none. Second owner: whoever made it.
  std::shared_ptr<const FrameTls> tls = {};
  std::string key = {};  // shown to every server; empty: none
};

struct RemoteTimes {
  std::chrono::nanoseconds waited{0};    // from sending to the answer, computing included
  std::chrono::nanoseconds computed{0};  // there, as it says
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  int64_t calls = 0;
};

// One server. Thread-confined.
class RemotePart {
 public:
  RemotePart(std::string endpoint, ExpectedPart expected)
      : endpoint_(std::move(endpoint)), expected_(std::move(expected)) {}

  // Until when what follows may take, in place of the timeout of each call.
  void SetLimit(const CallLimit& limit) { limit_ = limit; }
  // Connects unless connected, and compares. UNAVAILABLE; FAILED_PRECONDITION with both values.
  Status Open();
  Status Send(std::string_view frame);
  // The answer to the request `id`. An error frame becomes its Status.
  Status Receive(uint64_t id, FrameHeader* header, std::vector<std::byte>* payload);
  // Send and Receive, once more on a new connection if the first is gone or what came is damaged.
  Status Call(std::string_view frame, uint64_t id, FrameHeader* header,
              std::vector<std::byte>* payload);

  // What a request says of its deadline, in ms: a tenth of the time-out is left for the way.
  uint32_t stated_time() const { return static_cast<uint32_t>(expected_.timeout.count() * 9 / 10); }
  const std::string& endpoint() const { return endpoint_; }
  const std::string& mode() const { return mode_; }             // after Open
  const models::LayerRange& layers() const { return layers_; }  // after Open
  int64_t vocab_size() const { return vocab_size_; }            // after Open
  ShortIdentity identity() const { return ShortIdentityOf(expected_.identity); }
  RemoteTimes& times() { return times_; }

 private:
  Status Compare(std::string_view stats);
  Status AskStats(FrameHeader* header, std::vector<std::byte>* payload);
  CallLimit NextLimit() const;

  std::string endpoint_;
  ExpectedPart expected_;
  std::optional<CallLimit> limit_;
  FrameConnection connection_;
  std::string mode_;
  models::LayerRange layers_ = {0, -1};
  int64_t vocab_size_ = 0;
  RemoteTimes times_;
  std::chrono::steady_clock::time_point sent_at_;
};

// A server of feed-forward layers as a client names it.
struct FfnServer {
  // Without `layers` those that the server states.
  FfnServer(std::string url, std::optional<models::LayerRange> only = {})
      : endpoint(std::move(url)), layers(only) {}

  std::string endpoint;
  std::optional<models::LayerRange> layers;  // use these alone; it must have them all
};

// The feed-forward layers on one or more servers. Thread-confined.
class RemoteFfn : public models::FfnPort {
 public:
  // Every layer must be with one of the servers: UNAVAILABLE naming those that are missing, and the
  // servers that cannot be reached. FAILED_PRECONDITION for a server without the layers it is named
  // for. Servers with the same layer stand in for each other.
  static Result<std::unique_ptr<RemoteFfn>> Connect(const std::vector<FfnServer>& servers,
                                                    const ExpectedPart& expected, PayloadType type);

  Status Start(int64_t layer, ConstF32Matrix x, F32Matrix y) override;
  Status Finish(int64_t layer) override;

  RemoteTimes times();

 private:
  RemoteFfn() = default;
  static Result<std::unique_ptr<RemoteFfn>> ConnectOnce(const std::vector<FfnServer>& servers,
                                                        const ExpectedPart& expected,
                                                        PayloadType type);
  Status Add(std::unique_ptr<RemotePart> part, const FfnServer& server);
  Status CheckGaps(const std::string& failed) const;
  Status Decode(const FrameHeader& header, int64_t layer, RemotePart& part);
  Status CallAny(int64_t layer, const Status& why);
  Status TryOwners(int64_t layer, std::string* failed);

  std::vector<std::unique_ptr<RemotePart>> parts_;
  std::vector<std::vector<RemotePart*>> owners_;  // of each layer, the one in use first
  std::chrono::milliseconds patience_{0};
  int64_t num_layers_ = 0;
  PayloadType type_ = PayloadType::kF32;
  uint64_t next_id_ = 1;
  // The call under way.
  std::string frame_;
  uint64_t id_ = 0;
  F32Matrix y_;
  Status sent_;
  std::vector<std::byte> payload_;
};

// The embedding table and the projection on a server. Thread-confined.
class RemoteEmbed : public engine::EmbedPort, public engine::HeadPort {
 public:
  static Result<std::unique_ptr<RemoteEmbed>> Connect(const std::string& endpoint,
                                                      const ExpectedPart& expected);

  Status Embed(std::span<const int32_t> ids, F32Matrix rows) override;
  Result<engine::TopTokens> Top(ConstF32Matrix residual, int64_t count) override;
  Status Logits(ConstF32Matrix residual, std::span<float> logits) override;

  RemoteTimes times() { return part_.times(); }

 private:
  RemoteEmbed(const std::string& endpoint, const ExpectedPart& expected)
      : part_(endpoint, expected), patience_(expected.patience) {}
  FrameHeader Header(FrameKind kind);
  Status Call(const FrameHeader& request, FrameHeader* answer);

  RemotePart part_;
  const std::chrono::milliseconds patience_;
  uint64_t next_id_ = 1;
  std::string frame_;
  std::vector<std::byte> payload_;
};

}  // namespace pergola::grid
