#include <CLI/CLI.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/serve_flags.h"
#include "cli/serve_part.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "core/process_memory.h"

namespace pergola::cli {
namespace {

struct ServeFlags {
  ModelFlags model;
  EngineFlags engine;
  HttpFlags http;
  PartFlags part;
  double drain_timeout_s = 30;
};

int RunServe(const ServeFlags& flags) {
  if (!flags.part.role.empty()) {
    return ServePart({flags.part, flags.model.models.front(), flags.http.server,
                      flags.model.offline, flags.engine.threads,
                      flags.engine.activations == "f32"});
  }
  ReturnLargeBlocks();   // request bodies and answers come and go in bursts
  SignalWaiter signals;  // before any thread
  auto models = [&] {
    const StopWhileLoading stop(signals);
    return OpenModels(flags.model,
                      ServedOptions(flags.model, flags.engine, flags.http.max_promised_mib));
  }();
  if (!models.ok()) return Fail(models.status());
  std::vector<gateway::ServedModel> served;
  for (const auto& model : *models) {
    served.push_back({model->service(), model->info(), model->text()});
  }
  auto metrics = std::make_shared<gateway::Metrics>();
  AddSources(*models, metrics.get());
  const auto routes = MakeRoutes(flags.http, std::move(served), std::move(metrics));
  auto server = StartHttp(flags.http, routes);
  if (!server.ok()) return Fail(server.status());
  const int code = RunHttpUntilStopped(signals, flags.http, **server, flags.drain_timeout_s);
  for (const auto& model : *models) model->scheduler().StopAccepting();
  server->reset();
  return code;
}

void AddPartFlags(CLI::App& command, PartFlags& part) {
  command
      .add_option("--role", part.role,
                  "Serve a part of a language model as frames: embed (table and logits) or ffn")
      ->check(CLI::IsMember({"embed", "ffn"}));
  command.add_option("--layers", part.layers, "With --role ffn: layers, first-last");
  command.add_flag("--verify", part.verify, "With --role: check the checksums of a slice first");
  command.add_option("--frame-port", part.frame_port, "With --role: port of the frames (0: any)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
}

}  // namespace

void AddServe(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP");
  command->footer(
      "Speaks the OpenAI, Ollama, TEI, Cohere, Jina, Voyage and Perplexity dialects; /docs lists\n"
      "the routes. Flags may also stand in a TOML file (--config) or in the environment, lists\n"
      "there with commas between. The command line wins, then the environment.\n"
      "SIGTERM finishes what is in work and exits 0; SIGHUP rereads the keys.\n"
      "  pergola serve --model all-MiniLM-L6-v2 --port 42666");
  auto flags = std::make_shared<ServeFlags>();
  AddModelFlags(*command, flags->model);
  AddEngineFlags(*command, flags->engine);
  AddHttpFlags(*command, flags->http);
  AddPartFlags(*command, flags->part);
  CompleteServing(*command, flags->drain_timeout_s, run, [flags] { return RunServe(*flags); });
}

}  // namespace pergola::cli
