// The gRPC side of `pergola server`: proto/pergola/v1/embedding.proto and TEI's services over any
// InferenceService, with health (grpc.health.v1) and reflection.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto server, GrpcServer::Start({.hosts = {"0.0.0.0"}}, models));
//   ...
//   server->Drain(std::chrono::seconds(30));
//
// Health: "" and "pergola.v1.EmbeddingService" serve while all models do, each model's id while
// that one does (health_monitor.h), each TEI service while the first model does and can.
// TLS and keys are the options': without them it is for a network that only gateways reach
// (docs/operating.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"
#include "server/health_monitor.h"
#include "server/infer_log.h"
#include "server/served_model.h"
#include "service/metric_sample.h"

namespace pergola::server {

struct GrpcServerOptions {
  std::vector<std::string> hosts = {"127.0.0.1"};  // addresses or names, IPv4 or IPv6
  int port = 0;                                    // 0: any free one, the same for all hosts
  int64_t max_request_bytes = int64_t{64} << 20;
  // Open requests of one stream; beyond, the stream is not read.
  int max_open_per_stream = 256;
  HealthOptions health = {};
  InferObserver observer = {};  // may be empty
  // PEM: certificate chain and private key; empty: no TLS.
  std::string tls_cert_pem = {};
  std::string tls_key_pem = {};
  // Whether the value of a call's metadata "authorization" (empty: none was sent) may call. Empty:
  // all may. Asked on gRPC's threads, must be quick. Needs TLS; health (grpc.health.v1) stays open.
  std::function<bool(std::string_view authorization)> authorise = {};
};

// Thread-safe. Begin to end: Start, Drain, destructor.
class GrpcServer {
 public:
  // `models`: at least one; the first is the default. UNAVAILABLE: an address is in use or wrong;
  // INVALID_ARGUMENT: a certificate without key, keys without TLS.
  static Result<std::unique_ptr<GrpcServer>> Start(GrpcServerOptions options,
                                                   std::vector<ServedModel> models);
  // Cuts off what is open.
  ~GrpcServer();

  // "127.0.0.1:8080", one per host.
  const std::vector<std::string>& addresses() const;

  // Every model's health is known and good, and nothing drains.
  bool serving() const;

  // Reports NOT_SERVING, takes no new connection and no new call, answers what is open, and ends
  // streams. False: something was cut off after `timeout`.
  bool Drain(std::chrono::milliseconds timeout);

  // As rpc::ServerTls::Renew; OK where there is no TLS.
  Status RenewTls(const std::string& cert_pem, const std::string& key_pem);

  std::vector<service::MetricSample> Metrics() const;

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pergola::server
