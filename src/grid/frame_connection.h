// Frames over TCP, with TLS or without: a client's connection, or a server's side of one.
//
//   PERGOLA_ASSIGN_OR_RETURN(FrameConnection connection,
//                            FrameConnection::Connect("127.0.0.1:42700", limit));
//   connection.SetLimit(limit);
//   PERGOLA_RETURN_IF_ERROR(connection.Send(frame));
//   PERGOLA_RETURN_IF_ERROR(connection.Receive(&header, &payload));
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grid/call_limit.h"
#include "grid/frame.h"
#include "grid/frame_tls.h"
#include "pergola/status.h"

namespace pergola::grid {

// Of a URL whose connections are TLS; others are plain.
inline constexpr std::string_view kTlsScheme = "pergolas://";

// Owns a connected socket; movable. Thread-confined.
class FrameConnection {
 public:
  FrameConnection() = default;
  // Takes over a connected socket.
  explicit FrameConnection(int socket) : socket_(socket) {}
  FrameConnection(FrameConnection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        limit_(other.limit_),
        tls_(std::move(other.tls_)) {}
  FrameConnection& operator=(FrameConnection&& other) noexcept;
  ~FrameConnection() { Close(); }

  // `endpoint`: "host:port", "pergola://host:port", "[::1]:port", and with TLS alone
  // "pergolas://host:port", which needs `tls`. UNAVAILABLE naming it; UNAUTHENTICATED: its
  // certificate is not trusted. Takes a second at most for each address of the name. The connection
  // has the limit.
  static Result<FrameConnection> Connect(const std::string& endpoint, const CallLimit& limit,
                                         const FrameTls* tls = nullptr);

  // The server's side of TLS, before the first frame.
  Status AcceptTls(const FrameTls& tls);

  bool open() const { return socket_ >= 0; }
  void Close();
  // Without a limit, a frame that stalls half-way for longer than this ends with
  // DEADLINE_EXCEEDED, and so does an answer that does not begin. With one, it is how often a call
  // that waits looks at its limit.
  Status SetTimeout(std::chrono::milliseconds timeout);
  // Of what follows, in all: DEADLINE_EXCEEDED, or CANCELLED. How slowly a peer drips does not
  // matter.
  void SetLimit(const CallLimit& limit) { limit_ = limit; }
  void ClearLimit() { limit_.reset(); }

  // UNAVAILABLE when the peer is gone.
  Status Send(std::string_view frame);
  // A whole frame whose checksums are right. UNAVAILABLE when the peer is gone; DEADLINE_EXCEEDED;
  // DATA_LOSS or INVALID_ARGUMENT for a frame that is wrong: the connection is of no use then.
  Status Receive(FrameHeader* header, std::vector<std::byte>* payload);
  // The same of a peer that is yet to show that it may ask: a payload of more than `most` bytes is
  // read and dropped, and none is left.
  Status ReceiveBounded(uint64_t most, FrameHeader* header, std::vector<std::byte>* payload);
  // As Receive, but waits for the first byte for ever: `resting` is called after each timeout
  // without one, and may touch `payload`.
  Status ReceiveNext(const std::function<void()>& resting, FrameHeader* header,
                     std::vector<std::byte>* payload);

 private:
  // `resting`: null unless the first byte is waited for.
  Status ReceiveFrame(const std::function<void()>* resting, uint64_t most, FrameHeader* header,
                      std::vector<std::byte>* payload);
  Status Drop(uint64_t bytes);
  Status ReadExactly(std::byte* to, size_t bytes, const std::function<void()>* resting = nullptr);
  Status CheckLimit() const;
  Status StartTls(const FrameTls& tls, const std::string& host);

  int socket_ = -1;
  std::optional<CallLimit> limit_;
  std::unique_ptr<TlsSession> tls_;  // null: plain
};

}  // namespace pergola::grid
