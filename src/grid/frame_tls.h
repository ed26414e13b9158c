// TLS (1.2 or later) under the frames of a grid, with a certificate of the client too where the
// server asks for one.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto tls, FrameTls::Server({.cert_pem = cert, .key_pem = key}));
//   FrameServer::Start({.tls = tls}, handler);
//
//   PERGOLA_ASSIGN_OR_RETURN(auto tls, FrameTls::Client({.ca_pem = ca}));
//   FrameConnection::Connect("pergolas://10.0.0.2:42700", limit, tls.get());
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "pergola/status.h"

namespace pergola::grid {

// Contents of PEM files.
struct FrameTlsPem {
  std::string cert_pem = {};  // chain; a client's may be empty: none
  std::string key_pem = {};   // of the certificate
  // Authorities of the other side. A server's: clients need a certificate of one; empty: none
  // needed. A client's: the server's must be of one.
  std::string ca_pem = {};
};

// What all connections of one side share. Thread-safe.
class FrameTls {
 public:
  // INVALID_ARGUMENT: a text is no PEM, or key and certificate do not belong together.
  static Result<std::shared_ptr<FrameTls>> Server(const FrameTlsPem& pem);
  static Result<std::shared_ptr<FrameTls>> Client(const FrameTlsPem& pem);
  ~FrameTls();

  // From now on connections begin with these; those that stand stay as they are. Errors as above;
  // then all stays as it was.
  Status Renew(const FrameTlsPem& pem);

 private:
  friend class TlsSession;
  struct Impl;
  explicit FrameTls(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// TLS over one connected, blocking socket, which it does not own. Thread-confined; `tls` may go
// before it.
class TlsSession {
 public:
  // Of a client when `host`, which the certificate must be for, is not empty.
  TlsSession(const FrameTls& tls, int socket, const std::string& host);
  ~TlsSession();

  // `wait`: asked when a time-out of the socket has passed; an error ends the handshake.
  // UNAUTHENTICATED saying why the other side is not trusted, or UNAVAILABLE.
  Status Handshake(const std::function<Status()>& wait);
  // As recv and send: the number of bytes, 0 at the end, -1 with errno (EAGAIN: a time-out passed).
  ssize_t Read(void* to, size_t bytes);
  ssize_t Write(const void* from, size_t bytes);

 private:
  struct Impl;
  ssize_t Outcome(int result);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergola::grid
