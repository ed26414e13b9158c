#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/text_side.h"
#include "cli/command_line.h"
#include "cli/serve_flags.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "core/process_memory.h"
#include "gateway/replica_set.h"
#include "rpc/remote_service.h"

namespace pergola::cli {
namespace {

struct GatewayFlags {
  ModelFlags model;
  HttpFlags http;
  gateway::ReplicaSetOptions replicas;
  std::vector<std::string> backends;
  double backend_timeout_s = 300;
  double stall_timeout_s = 15;
  double drain_timeout_s = 30;
};

struct Backend {
  std::string address;
  std::shared_ptr<rpc::RemoteService> service;  // second owner: the replica sets
};

std::vector<Backend> Connect(const std::vector<std::string>& addresses) {
  std::vector<Backend> backends;
  for (const std::string& address : addresses) {
    backends.push_back(
        {address, std::make_shared<rpc::RemoteService>(address, rpc::RemoteServiceOptions{})});
  }
  return backends;
}

// What the first backend to answer serves; the others may come later.
Result<std::vector<service::ModelInfo>> AskBackends(const std::vector<Backend>& backends,
                                                    double timeout_s) {
  const auto deadline = service::Clock::now() + Seconds(timeout_s);
  while (true) {
    for (const Backend& backend : backends) {
      auto models = backend.service->FetchModels(std::chrono::milliseconds(500));
      if (models.ok() && !models->empty()) return models;
      if (models.status().code() == StatusCode::kDataLoss) return models.status();
      if (service::Clock::now() >= deadline) {
        return UnavailableError("no backend answers: " + models.status().message());
      }
    }
  }
}

// What the backends call the model `id`: the same, or whatever they serve if that is all.
Result<service::ModelInfo> FindInfo(const std::vector<service::ModelInfo>& models,
                                    const std::string& id, bool only) {
  for (const service::ModelInfo& info : models) {
    if (info.id == id) return info;
  }
  if (only && models.size() == 1) return models[0];
  return NotFoundError("the backends do not serve '" + id + "'");
}

struct GatewayModels {
  std::vector<gateway::ServedModel> served;
  std::vector<std::shared_ptr<gateway::ReplicaSet>> sets;
};

Result<GatewayModels> OpenGatewayModels(const GatewayFlags& flags,
                                        const std::vector<Backend>& backends,
                                        gateway::Metrics* metrics) {
  PERGOLA_ASSIGN_OR_RETURN(const auto locations, LocateModels(flags.model));
  PERGOLA_ASSIGN_OR_RETURN(const auto remote, AskBackends(backends, flags.backend_timeout_s));
  GatewayModels models;
  for (const ModelLocation& location : locations) {
    PERGOLA_ASSIGN_OR_RETURN(service::ModelInfo info,
                             FindInfo(remote, location.id, locations.size() == 1));
    PERGOLA_ASSIGN_OR_RETURN(
        auto text, api::OpenText(location.path.string(), info, flags.model.default_prompt_name));
    std::vector<gateway::Replica> replicas;
    for (const Backend& backend : backends) {
      replicas.push_back({backend.address, backend.service, info.id});
    }
    info.id = location.id;
    gateway::ReplicaSetOptions options = flags.replicas;
    options.stall_timeout = Seconds(flags.stall_timeout_s);
    options.max_promised_bytes = flags.http.max_promised_mib << 20;
    auto set = std::make_shared<gateway::ReplicaSet>(info, std::move(replicas), options);
    metrics->AddSource([set, id = info.id] {
      std::vector<service::MetricSample> samples = set->Metrics();
      for (service::MetricSample& sample : samples) sample.labels.emplace_back("model", id);
      return samples;
    });
    std::fprintf(stderr, "%s: %s, %s, %zu backends\n", info.id.c_str(), info.architecture.c_str(),
                 info.numeric_class.c_str(), backends.size());
    models.sets.push_back(set);
    models.served.push_back({std::move(set), std::move(info), std::move(text)});
  }
  return models;
}

int RunGateway(const GatewayFlags& flags) {
  ReturnLargeBlocks();
  SignalWaiter signals;  // before any thread
  const std::vector<Backend> backends = Connect(flags.backends);
  auto metrics = std::make_shared<gateway::Metrics>();
  auto models = [&] {
    const StopWhileLoading stop(signals);
    return OpenGatewayModels(flags, backends, metrics.get());
  }();
  if (!models.ok()) return Fail(models.status());
  const auto routes = MakeRoutes(flags.http, models->served, std::move(metrics));
  auto server = StartHttp(flags.http, routes);
  if (!server.ok()) return Fail(server.status());
  const int code = RunHttpUntilStopped(signals, flags.http, **server, flags.drain_timeout_s);
  server->reset();
  return code;
}

void AddBackendFlags(CLI::App& command, GatewayFlags& flags) {
  command
      .add_option("--backend", flags.backends,
                  "Servers that compute, host:port each, all of the same models")
      ->delimiter(',')
      ->required();
  AddSecondsFlag(command, "--backend-timeout", flags.backend_timeout_s, 0,
                 "Seconds that the start waits for a first backend");
  AddSecondsFlag(command, "--stall-timeout", flags.stall_timeout_s, 0.1,
                 "Seconds without any answer after which a backend with open work is given up");
  command
      .add_option("--piece-tokens", flags.replicas.pieces.tokens,
                  "Longer lists are cut into pieces for several backends")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  command
      .add_option("--max-attempts", flags.replicas.max_attempts,
                  "Backends tried for one request, the first included")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
}

}  // namespace

void AddGateway(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("gateway", "Serve over HTTP what servers compute");
  command->footer(
      "Speaks what `pergola serve` speaks. The model is there for its tokenizer, prompts and\n"
      "limits; its weights are not loaded. Flags as for `pergola serve`.\n"
      "SIGTERM finishes what is in work and exits 0; SIGHUP rereads the keys.\n"
      "  pergola gateway --model all-MiniLM-L6-v2 --backend 10.0.0.7:42668,10.0.0.8:42668");
  auto flags = std::make_shared<GatewayFlags>();
  AddModelFlags(*command, flags->model);
  AddBackendFlags(*command, *flags);
  AddHttpFlags(*command, flags->http);
  CompleteServing(*command, flags->drain_timeout_s, run, [flags] { return RunGateway(*flags); });
}

}  // namespace pergola::cli
