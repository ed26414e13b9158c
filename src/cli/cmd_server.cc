#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/serve_flags.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "core/process_memory.h"
#include "server/grpc_server.h"

namespace pergola::cli {
namespace {

struct ServerFlags {
  ModelFlags model;
  EngineFlags engine;
  server::GrpcServerOptions grpc;
  int64_t max_promised_mib = 2048;
  double drain_timeout_s = 30;
};

int RunServer(const ServerFlags& flags) {
  ReturnLargeBlocks();
  SignalWaiter signals;  // before any thread
  auto models = [&] {
    const StopWhileLoading stop(signals);
    return OpenModels(flags.model,
                      ServedOptions(flags.model, flags.engine, flags.max_promised_mib));
  }();
  if (!models.ok()) return Fail(models.status());
  std::vector<server::ServedModel> served;
  for (const auto& model : *models) {
    served.push_back({model->service(), model->info(), model->text()});
  }
  auto server = server::GrpcServer::Start(flags.grpc, std::move(served));
  if (!server.ok()) return Fail(server.status());
  Running running;
  for (const std::string& address : (*server)->addresses()) {
    running.addresses.push_back("grpc://" + address);
  }
  running.drain = [&](std::chrono::milliseconds timeout) { return (*server)->Drain(timeout); };
  const int code = RunUntilStopped(signals, running, flags.drain_timeout_s);
  for (const auto& model : *models) model->scheduler().StopAccepting();
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
  AddModelFlags(*command, flags->model);
  AddEngineFlags(*command, flags->engine);
  AddPromisedFlag(*command, flags->max_promised_mib);
  flags->grpc.port = 42668;
  AddHostFlags(*command, flags->grpc.hosts, flags->grpc.port);
  CompleteServing(*command, flags->drain_timeout_s, run, [flags] { return RunServer(*flags); });
}

}  // namespace pergola::cli
