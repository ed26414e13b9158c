#include "rpc/remote_service.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "pergola/v1/embedding.grpc.pb.h"
#include "rpc/grpc_log.h"
#include "rpc/messages.h"
#include "rpc/status.h"

namespace pergola::rpc {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const RemoteServiceOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // rows are bounded by what was asked
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options.keepalive_time.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(options.keepalive_timeout.count()));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto backoff = static_cast<int>(options.max_backoff.count());
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, std::min(backoff, 100));
  // What gRPC calls so is the time that an attempt gets, not a pause.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(options.connect_timeout.count()));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, backoff);
  // A connection of its own, though others may talk to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Retries are the replica set's: it knows other replicas and counts what it spends.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  if (options.ca_pem.empty()) {
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  }
  if (!options.tls_name.empty()) arguments.SetSslTargetNameOverride(options.tls_name);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.ca_pem;
  return grpc::CreateCustomChannel(target, grpc::SslCredentials(tls), arguments);
}

// Counted on the steady clock: a clock that jumps moves no deadline.
gpr_timespec After(std::chrono::nanoseconds time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(time.count(), GPR_TIMESPAN));
}

}  // namespace

struct RemoteService::State {
  std::string authorization;  // of each call; empty: none
  std::unique_ptr<v1::EmbeddingService::Stub> stub;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable none_open;
  std::unordered_set<Call*> open;
  std::vector<service::ModelInfo> models;
};

// Owned by gRPC's callback and, for the time of a cancellation, by the cancel token.
struct RemoteService::Call {
  grpc::ClientContext context;
  v1::InferRequest request;
  v1::InferResponse response;
  std::shared_ptr<service::CancelToken> cancel;
  service::CancelToken::ListenerId listener = 0;
  service::InferenceCallback done;

  Result<service::InferenceOutput> Take(const grpc::Status& status) const {
    // A server that shuts down cancels calls that it has not begun.
    const bool asked = cancel != nullptr && cancel->cancelled();
    if (status.error_code() == grpc::StatusCode::CANCELLED && !asked) {
      return UnavailableError("the server has ended the call: " + FromGrpcStatus(status).message());
    }
    if (!status.ok()) return FromGrpcStatus(status);
    return DecodeOutput(request, response);
  }
};

RemoteService::RemoteService(std::string target, const RemoteServiceOptions& options)
    : state_(std::make_unique<State>()) {
  QuietGrpcLog();
  if (!options.api_key.empty() && !options.ca_pem.empty()) {
    state_->authorization = "Bearer " + options.api_key;
  }
  state_->stub = v1::EmbeddingService::NewStub(MakeChannel(target, options));
}

RemoteService::~RemoteService() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  for (Call* call : state_->open) call->context.TryCancel();
  state_->none_open.wait(lock, [this] { return state_->open.empty(); });
}

void RemoteService::Submit(service::InferenceRequest request, service::InferenceCallback done) {
  auto call = std::make_shared<Call>();
  if (request.deadline != service::Clock::time_point::max()) {
    call->context.set_deadline(After(request.deadline - service::Clock::now()));
  }
  if (!state_->authorization.empty()) {
    call->context.AddMetadata("authorization", state_->authorization);
  }
  if (request.trace.valid()) {
    call->context.AddMetadata("traceparent", service::FormatTraceParent(request.trace));
    if (!request.trace.state.empty()) {
      call->context.AddMetadata("tracestate", request.trace.state);
    }
  }
  EncodeRequest(request, &call->request);
  call->cancel = std::move(request.cancel);
  call->done = std::move(done);
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->open.insert(call.get());
  }
  if (call->cancel != nullptr) {
    call->listener = call->cancel->Listen([call] { call->context.TryCancel(); });
  }
  State* state = state_.get();
  state->stub->async()->Infer(&call->context, &call->request, &call->response,
                              [state, call](const grpc::Status& status) {
                                if (call->cancel != nullptr) call->cancel->Forget(call->listener);
                                call->done(call->Take(status));
                                call->done = nullptr;
                                const std::lock_guard<std::mutex> lock(state->mutex);
                                state->open.erase(call.get());
                                if (state->open.empty()) state->none_open.notify_all();
                              });
}

void RemoteService::Ping(std::function<void(Status)> done) {
  struct PingCall {
    grpc::ClientContext context;
    v1::ListModelsRequest request;
    v1::ListModelsResponse response;
  };
  auto call = std::make_shared<PingCall>();
  if (!state_->authorization.empty()) {
    call->context.AddMetadata("authorization", state_->authorization);
  }
  state_->stub->async()->ListModels(
      &call->context, &call->request, &call->response,
      [call, done = std::move(done)](const grpc::Status& status) { done(FromGrpcStatus(status)); });
}

std::vector<service::ModelInfo> RemoteService::Models() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->models;
}

Result<std::vector<service::ModelInfo>> RemoteService::FetchModels(
    std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(After(timeout));
  context.set_wait_for_ready(true);
  if (!state_->authorization.empty()) context.AddMetadata("authorization", state_->authorization);
  v1::ListModelsResponse response;
  const grpc::Status status = state_->stub->ListModels(&context, {}, &response);
  PERGOLA_RETURN_IF_ERROR(FromGrpcStatus(status));
  std::vector<service::ModelInfo> models;
  for (const v1::ModelInfo& model : response.models()) {
    PERGOLA_ASSIGN_OR_RETURN(models.emplace_back(), DecodeModel(model));
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->models = models;
  return models;
}

}  // namespace pergola::rpc
