// The InferenceService of another process: the same requests, bits and errors over gRPC.
//
//   rpc::RemoteService remote("10.0.0.7:8080", {});
//   PERGOLA_ASSIGN_OR_RETURN(auto models, remote.FetchModels(std::chrono::seconds(2)));
//   remote.Submit(std::move(request), [](Result<service::InferenceOutput> output) { ... });
//
// One connection, made when first needed and made again by itself when lost. It tries once: retry
// and choice among replicas are gateway/replica_set.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pergola/status.h"
#include "service/inference_service.h"

namespace pergola::rpc {

struct RemoteServiceOptions {
  // While calls are open, a ping after this much silence; a peer that does not answer it in time is
  // given up, and its calls end with UNAVAILABLE. A process that is stopped or a cable that is
  // pulled closes no connection.
  std::chrono::milliseconds keepalive_time{2000};
  std::chrono::milliseconds keepalive_timeout{2000};
  // Of one attempt to connect, TLS handshake included.
  std::chrono::milliseconds connect_timeout{2000};
  // Longest pause between two attempts to connect.
  std::chrono::milliseconds max_backoff{1000};
  // Certificates (PEM) of whom the server's must come from; empty: no TLS.
  std::string ca_pem;
  // The name that the server's certificate must have; empty: the target's own.
  std::string tls_name;
  // Sent with each call as "authorization: Bearer <key>"; empty: none. Needs ca_pem, so that it
  // crosses no network in the clear.
  std::string api_key;
};

// Thread-safe.
class RemoteService : public service::InferenceService {
 public:
  // `target`: host:port, [v6]:port, unix:/path or dns:///name:port. Connects to nothing yet. Wrong
  // certificates are noticed when it does: UNAVAILABLE.
  RemoteService(std::string target, const RemoteServiceOptions& options);
  // Cancels what is open and waits until it is called back.
  ~RemoteService() override;

  // Beside the errors of the interface: UNAUTHENTICATED when the server wants another key,
  // UNAVAILABLE when the peer cannot be reached or went away,
  // DATA_LOSS when its answer does not fit the question. Callbacks run on threads of gRPC.
  void Submit(service::InferenceRequest request, service::InferenceCallback done) override;

  // A call that computes nothing, over the same connection and threads as Submit: what a hop costs.
  // `done` as Submit's. No Ping may be open when the destructor runs.
  void Ping(std::function<void(Status)> done);

  // Of the last successful FetchModels; none before.
  std::vector<service::ModelInfo> Models() const override;

  // Asks the peer; blocks at most `timeout`. Waits for a peer that is not yet there.
  Result<std::vector<service::ModelInfo>> FetchModels(std::chrono::milliseconds timeout);

 private:
  struct State;
  struct Call;
  std::unique_ptr<State> state_;
};

}  // namespace pergola::rpc
