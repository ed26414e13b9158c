// Listens for frames and answers each by a handler, on a thread per connection: a hop then costs
// one wake-up. Peers are other machines of the same grid, so connections are few.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto server, FrameServer::Start({.port = 0}, handler));
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "grid/frame.h"
#include "grid/frame_tls.h"
#include "pergola/status.h"

namespace pergola::grid {

// Makes `answer` the answer's frame (identity and request id are the request's, set by the
// handler), or says why not: the peer then gets an error frame. `answer` may hold that of the
// connection's last request, whose memory serves again. Thread-safe; may block.
using FrameHandler = std::function<Status(const FrameHeader& request,
                                          std::span<const std::byte> payload, std::string* answer)>;

struct FrameServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: the system picks one
  // One more ends that which has waited longest without ever having asked; if all have asked, it
  // is closed at once.
  int max_connections = 256;
  // Until when a new connection must have asked, TLS handshake included. Later it may rest for as
  // long as it likes: peers keep theirs open.
  std::chrono::milliseconds first_frame_timeout{10'000};
  // How long one more waits for the place of a peer that has hung up while it is still worked for;
  // a newcomer for each such peer, and all others are served meanwhile.
  std::chrono::milliseconds farewell_limit{1'000};
  std::shared_ptr<const FrameTls> tls = {};  // null: plain. Second owner: whoever made it
  // Whether a peer may ask, by the key that its first frame, a `stats` request, has as its payload
  // ("" when it has none). Who may not gets UNAUTHENTICATED, and its connection ends. Asked once a
  // connection; empty: everybody may. Thread-safe.
  std::function<bool(std::string_view key)> admits = {};
};

// Thread-safe.
class FrameServer {
 public:
  // ALREADY_EXISTS when the address is in use; INVALID_ARGUMENT for a host that is no address.
  static Result<std::unique_ptr<FrameServer>> Start(const FrameServerOptions& options,
                                                    FrameHandler handler);
  // Closes all connections and waits for the handlers under way; what they answer still goes out,
  // unless a drain has run out of time.
  ~FrameServer();

  // Takes no connection and no request any more, and waits for the answers under way. False when
  // `limit` passed first: the destructor then cuts off what is left, but still waits for handlers.
  bool Drain(std::chrono::milliseconds limit);

  int port() const;

 private:
  struct Impl;
  explicit FrameServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergola::grid
