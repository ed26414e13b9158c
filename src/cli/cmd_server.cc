#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/serve_flags.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "core/process_memory.h"
#include "gateway/status_pages.h"
#include "server/grpc_server.h"

namespace pergola::cli {
namespace {

struct ServerFlags {
  ComputeFlags compute;
  server::GrpcServerOptions grpc;
  std::string status_host = "127.0.0.1";
  int status_port = -1;  // none
};

// /healthz, /readyz and /metrics, where --status-port asks for them.
Result<std::unique_ptr<gateway::HttpServer>> StartStatusPages(
    const ServerFlags& flags, const std::vector<std::unique_ptr<api::ServedModel>>& models,
    const server::GrpcServer& server) {
  if (flags.status_port < 0) return std::unique_ptr<gateway::HttpServer>();
  auto metrics = std::make_shared<gateway::Metrics>();
  AddSources(models, metrics.get());
  metrics->AddSource([&server] { return server.Metrics(); });
  gateway::HttpServerOptions options;
  options.hosts = {flags.status_host};
  options.port = flags.status_port;
  return gateway::HttpServer::Start(
      std::move(options), std::make_shared<gateway::StatusPages>(
                              std::move(metrics), [&server] { return server.serving(); }));
}

int RunServer(const ServerFlags& flags) {
  ReturnLargeBlocks();
  SignalWaiter signals;  // before any thread
  auto models = OpenModels(signals, flags.compute);
  if (!models.ok()) return Fail(models.status());
  auto served = OfferModels(Offered<server::ServedModel>(*models), flags.compute.text);
  if (!served.ok()) return Fail(served.status());
  auto server = server::GrpcServer::Start(flags.grpc, std::move(*served));
  if (!server.ok()) return Fail(server.status());
  auto status_pages = StartStatusPages(flags, *models, **server);
  if (!status_pages.ok()) return Fail(status_pages.status());
  if (*status_pages != nullptr) {
    std::fprintf(stderr, "status on %s\n", (*status_pages)->addresses()[0].c_str());
  }
  Running running;
  for (const std::string& address : (*server)->addresses()) {
    running.addresses.push_back("grpc://" + address);
  }
  running.drain = [&](std::chrono::milliseconds timeout) { return (*server)->Drain(timeout); };
  const int code = RunUntilStopped(signals, running, flags.compute.drain_timeout_s);
  for (const auto& model : *models) model->scheduler().StopAccepting();
  status_pages->reset();
  server->reset();
  return code;
}

}  // namespace

void AddServer(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("server", "Compute for gateways, over gRPC");
  command->footer(
      "Answers proto/pergola/v1/embedding.proto and the gRPC services of\n"
      "text-embeddings-inference, with health (grpc.health.v1) and reflection. No keys and no "
      "TLS:\n"
      "for a network that only gateways reach. Flags as for `pergola serve`.\n"
      "SIGTERM finishes what is in work and exits 0.\n"
      "  pergola server --model all-MiniLM-L6-v2 --host 0.0.0.0 --port 42668");
  auto flags = std::make_shared<ServerFlags>();
  AddComputeFlags(*command, flags->compute);
  flags->grpc.port = 42668;
  AddHostFlags(*command, flags->grpc.hosts, flags->grpc.port);
  command->add_option("--status-host", flags->status_host, "Address of the status pages")
      ->capture_default_str();
  command
      ->add_option("--status-port", flags->status_port,
                   "HTTP port of /healthz, /readyz and /metrics (0: any free one; default: none)")
      ->check(CLI::Range(0, 65535));
  CompleteServing(*command, run, [flags](const SetAgain&) { return RunServer(*flags); });
}

}  // namespace pergola::cli
