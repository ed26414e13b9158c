// TLS of a gRPC server, whose certificate can be renewed while it listens.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto tls, ServerTls::Make({cert_pem, key_pem, ""}));
//   builder.AddListeningPort(address, tls->credentials(), &port);
//   ...
//   PERGOLA_RETURN_IF_ERROR(tls->Renew({newer_cert_pem, newer_key_pem, ""}));
#pragma once

#include <memory>
#include <string>

#include "pergola/status.h"

namespace grpc {
class ServerCredentials;
}

namespace pergola::rpc {

// PEM texts of one side. A server's `ca` are the authorities of its clients' certificates, without
// which they need none; a client's those of the server's, without which there is no TLS.
struct LinkTls {
  std::string cert = {};
  std::string key = {};
  std::string ca = {};
};

// Thread-safe.
class ServerTls {
 public:
  // INVALID_ARGUMENT: a text is no PEM, or key and certificate do not belong together; UNAVAILABLE:
  // the system lacks what it needs (core/memory_file.h).
  static Result<std::unique_ptr<ServerTls>> Make(const LinkTls& tls);
  ~ServerTls();

  // For ports; the object must outlive the server.
  std::shared_ptr<grpc::ServerCredentials> credentials() const;
  // For connections that begin later than about a second from now; those that stand go on. Errors
  // as of Make, and INVALID_ARGUMENT where clients would need a certificate that need none so far,
  // or the reverse; then all stays as it was.
  Status Renew(const LinkTls& tls);

 private:
  struct State;
  explicit ServerTls(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pergola::rpc
