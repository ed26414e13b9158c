#include "server/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "rpc/grpc_log.h"
#include "rpc/server_tls.h"
#include "server/embedding_service.h"
#include "server/tei_services.h"

namespace pergola::server {
namespace {

constexpr const char* kEmbeddingService = "pergola.v1.EmbeddingService";

std::string Address(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

void SetArguments(grpc::ServerBuilder* builder, const GrpcServerOptions& options) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_request_bytes));
  builder->SetMaxSendMessageSize(-1);
  // Without it two servers would share a port and neither would know.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients ping often to notice a dead peer (rpc/remote_service.h).
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

// Lets in who may call; all else is UNAUTHENTICATED before it reaches a service.
class KeyCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit KeyCheck(std::function<bool(std::string_view)> authorise)
      : authorise_(std::move(authorise)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* /*context*/,
                       OutputMetadata* consumed, OutputMetadata* /*response*/) override {
    const auto value = [&metadata](const char* key) {
      const auto found = metadata.find(key);
      return found == metadata.end() ? std::string_view()
                                     : std::string_view(found->second.data(), found->second.size());
    };
    const std::string_view given = value("authorization");
    if (value(":path").starts_with("/grpc.health.v1.Health/")) return grpc::Status::OK;
    if (!authorise_(given)) {
      return {
          grpc::StatusCode::UNAUTHENTICATED,
          given.empty() ? "a key is needed: authorization: Bearer <key>" : "the key is not valid"};
    }
    consumed->emplace("authorization", std::string(given));
    return grpc::Status::OK;
  }

 private:
  const std::function<bool(std::string_view)> authorise_;
};

// `*tls` is set where there is some; it must outlive the server.
Result<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(
    const GrpcServerOptions& options, std::unique_ptr<rpc::ServerTls>* tls) {
  if (options.tls_cert_pem.empty() && options.tls_key_pem.empty()) {
    if (!options.authorise) return grpc::InsecureServerCredentials();
    return InvalidArgumentError("keys need TLS: they would cross the network in the clear");
  }
  PERGOLA_ASSIGN_OR_RETURN(*tls, rpc::ServerTls::Make({options.tls_cert_pem, options.tls_key_pem}));
  const std::shared_ptr<grpc::ServerCredentials> credentials = (*tls)->credentials();
  if (options.authorise) {
    credentials->SetAuthMetadataProcessor(std::make_shared<KeyCheck>(options.authorise));
  }
  return credentials;
}

// Process-wide settings of gRPC, once.
void InitialiseGrpc() {
  rpc::QuietGrpcLog();
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

struct GrpcServer::State {
  GrpcServerOptions options;
  std::vector<ServedModel> models;
  std::vector<std::string> addresses;
  std::unique_ptr<rpc::ServerTls> tls;  // null: none
  CallCounters counters;
  EmbeddingService embedding;
  TeiServices tei;

  mutable std::mutex mutex;  // guards what follows
  std::vector<bool> serving;
  bool draining = false;

  bool AllServe() const {  // mutex held
    return std::find(serving.begin(), serving.end(), false) == serving.end();
  }
  // Called by HealthMonitor.
  void Report(size_t index, bool now_serving) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (draining) return;
    serving[index] = now_serving;
    const bool all = AllServe();
    grpc::HealthCheckServiceInterface* const health = server->GetHealthCheckService();
    health->SetServingStatus(models[index].info.id, now_serving);
    health->SetServingStatus(kEmbeddingService, all);
    health->SetServingStatus("", all);
    if (index > 0) return;
    for (const auto& [name, able] : tei.abilities) {
      health->SetServingStatus(name, now_serving && able);
    }
  }

  // Destroyed first: ends what uses the members above.
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<HealthMonitor> monitor;
};

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() {
  Drain(std::chrono::milliseconds(0));
  state_->monitor.reset();
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(GrpcServerOptions options,
                                                      std::vector<ServedModel> models) {
  InitialiseGrpc();
  std::unique_ptr<rpc::ServerTls> tls;
  PERGOLA_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(options, &tls));
  auto state = std::make_unique<State>();
  state->tls = std::move(tls);
  State* const raw = state.get();
  state->options = std::move(options);
  state->models = std::move(models);
  state->serving.resize(state->models.size(), false);
  state->monitor = std::make_unique<HealthMonitor>(
      state->models, state->options.health,
      [raw](size_t index, bool serving) { raw->Report(index, serving); });
  const ServiceContext context{&state->models, state->monitor.get(), &state->counters,
                               state->options.max_open_per_stream, &state->options.observer};
  state->embedding = MakeEmbeddingService(context);

  grpc::ServerBuilder builder;
  SetArguments(&builder, state->options);
  builder.RegisterService(state->embedding.service.get());
  if (state->models[0].text != nullptr) state->tei = MakeTeiServices(context);
  for (const auto& each : state->tei.services) builder.RegisterService(each.get());
  std::vector<int> ports(state->options.hosts.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(Address(state->options.hosts[i], state->options.port), credentials,
                             &ports[i]);
  }
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) {
    return UnavailableError("cannot listen on " + state->options.hosts[0] + " port " +
                            std::to_string(state->options.port));
  }
  grpc::HealthCheckServiceInterface* const health = state->server->GetHealthCheckService();
  health->SetServingStatus("", false);
  health->SetServingStatus(kEmbeddingService, false);
  for (const ServedModel& model : state->models) health->SetServingStatus(model.info.id, false);
  for (const auto& [name, able] : state->tei.abilities) health->SetServingStatus(name, false);
  state->monitor->Start();
  for (size_t i = 0; i < ports.size(); ++i) {
    state->addresses.push_back(Address(state->options.hosts[i], ports[i]));
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

Status GrpcServer::RenewTls(const std::string& cert_pem, const std::string& key_pem) {
  return state_->tls == nullptr ? OkStatus() : state_->tls->Renew({cert_pem, key_pem});
}

const std::vector<std::string>& GrpcServer::addresses() const { return state_->addresses; }

bool GrpcServer::serving() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return !state_->draining && state_->AllServe();
}

bool GrpcServer::Drain(std::chrono::milliseconds timeout) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->draining) return true;
    state_->draining = true;
    state_->server->GetHealthCheckService()->SetServingStatus(false);
  }
  state_->embedding.drain->DrainStreams();
  const auto began = std::chrono::steady_clock::now();
  state_->server->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                        gpr_time_from_millis(timeout.count(), GPR_TIMESPAN)));
  return std::chrono::steady_clock::now() - began < timeout || state_->counters.open.load() == 0;
}

std::vector<service::MetricSample> GrpcServer::Metrics() const {
  using service::MetricKind;
  const CallCounters& counters = state_->counters;
  const auto sample = [](std::string name, std::string help, MetricKind kind, double value) {
    return service::MetricSample{std::move(name), std::move(help), kind, {}, value, {}, {}};
  };
  return {
      sample("pergola_grpc_requests_total", "Requests received over gRPC.", MetricKind::kCounter,
             static_cast<double>(counters.requests.load())),
      sample("pergola_grpc_failures_total", "Requests over gRPC answered with an error.",
             MetricKind::kCounter, static_cast<double>(counters.failures.load())),
      sample("pergola_grpc_cancelled_total", "Requests over gRPC that the client gave up.",
             MetricKind::kCounter, static_cast<double>(counters.cancelled.load())),
      sample("pergola_grpc_open_requests", "Requests over gRPC not yet answered.",
             MetricKind::kGauge, static_cast<double>(counters.open.load())),
  };
}

}  // namespace pergola::server
