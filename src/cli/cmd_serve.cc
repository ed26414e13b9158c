#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/serve_flags.h"
#include "cli/serve_part.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "core/periodic.h"
#include "core/process_memory.h"

namespace pergola::cli {
namespace {

struct ServeFlags {
  ComputeFlags compute;
  ResidencyFlags residency;
  HttpFlags http;
  PartFlags part;
};

// What is to go at once goes within this.
constexpr std::chrono::milliseconds kUnloadPeriod{250};

void AddFlags(CLI::App& command, ServeFlags& flags);

// New routes as the flags say now; those installed before finish what they have begun.
Status InstallRoutes(const std::vector<std::unique_ptr<api::ServedModel>>& models,
                     const ServeFlags& flags, HttpFront& front) {
  PERGOLA_ASSIGN_OR_RETURN(auto served,
                           OfferModels(Offered<gateway::ServedModel>(models), flags.compute.text));
  front.routes->Install(
      MakeRoutes(flags.http, flags.compute.engine.cache_mib, std::move(served), front.metrics));
  return OkStatus();
}

int RunServe(const ServeFlags& flags, const SetAgain& set_again) {
  const ComputeFlags& compute = flags.compute;
  if (!flags.part.role.empty() || flags.part.spare) {
    if (!compute.model.adapters.empty()) {
      return Fail(InvalidArgumentError("--adapter is not for parts of a model"));
    }
    if (flags.residency.load_on_demand || flags.residency.memory_budget_bytes > 0 ||
        flags.residency.keep_alive != ResidencyFlags().keep_alive) {
      return Fail(InvalidArgumentError(
          "--keep-alive, --memory-budget and --load-on-demand are not for parts of a model"));
    }
    return ServePart({flags.part, compute.model.models.front(), flags.http.server,
                      compute.model.offline, compute.engine.threads,
                      compute.engine.activations == "f32", compute.drain_timeout_s});
  }
  ReturnLargeBlocks();   // request bodies and answers come and go in bursts
  SignalWaiter signals;  // before any thread
  const std::shared_ptr<api::ResidentModels> residents = MakeResidents(flags.residency);
  auto models = OpenModels(signals, compute, residents);
  if (!models.ok()) return Fail(models.status());
  HttpFront front = MakeFront("pergola-serve", flags.http);
  AddSources(*models, front.metrics.get());
  front.metrics->AddSource([residents] { return residents->Metrics(); });
  Status status = InstallRoutes(*models, flags, front);
  if (status.ok()) status = Listen(flags.http, &front);
  if (!status.ok()) return Fail(status);
  const Periodic unloads(kUnloadPeriod, [&residents] { residents->UnloadExpired(); });
  const auto reload = [&]() -> Status {
    ServeFlags fresh;
    CLI::App app;
    AddFlags(app, fresh);
    PERGOLA_RETURN_IF_ERROR(set_again(app));
    return InstallRoutes(*models, fresh, front);
  };
  // Who waits for weights would hold the drain for as long as they take.
  const int code = RunHttpUntilStopped(signals, *front.server, reload, compute.drain_timeout_s,
                                       [&residents] { residents->StopLoading(); });
  for (const auto& model : *models) model->scheduler().StopAccepting();
  front.server.reset();
  return code;
}

void AddPartFlags(CLI::App& command, PartFlags& part) {
  command
      .add_option("--role", part.role,
                  "Serve a part of a language model as frames: embed (table and logits) or ffn")
      ->check(CLI::IsMember({"embed", "ffn"}));
  command.add_option("--layers", part.layers, "With --role ffn: layers, first-last");
  command.add_option("--join", part.join, "With --role: router to join, host:port of its --port");
  command.add_option("--join-key-file", part.join_key_file,
                     "With --join: file whose first line is the key");
  command.add_option("--announce-host", part.announce,
                     "With --join: host by which the router reaches this server (default: --host)");
  command.add_option("--join-ca", part.join_ca,
                     "With --join: authorities (PEM) of the router's certificate; without: no TLS");
  command.add_option(
      "--tls-client-ca", part.client_ca,
      "With --role: authorities (PEM) of certificates that who asks for frames needs");
  command.add_option("--share", part.share,
                     "With --role: folder of slices that spares of the grid may fetch over HTTP");
  command
      .add_flag("--spare", part.spare,
                "With --join: wait for a part that nobody serves, fetch its slice and serve it")
      ->excludes("--role");
  command.add_option("--store", part.store, "With --spare: folder to keep slices in");
  command
      .add_option("--slice-source", part.sources,
                  "With --spare: folders or URLs to fetch slices from, before the grid's own")
      ->delimiter(',');
  command.add_option("--slice-source-ca", part.source_ca,
                     "With --spare: authorities (PEM) of https sources (the system's)");
  command.add_option("--slice-source-key-file", part.source_key_file,
                     "With --spare: file whose first line is the key of the --slice-source");
  command.add_flag("--verify", part.verify, "With --role: check the checksums of a slice first");
  command.add_option("--frame-port", part.frame_port, "With --role: port of the frames (0: any)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
}

void AddFlags(CLI::App& command, ServeFlags& flags) {
  AddComputeFlags(command, flags.compute);
  AddResidencyFlags(command, flags.residency);
  AddHttpFlags(command, flags.http);
  AddPartFlags(command, flags.part);
}

}  // namespace

void AddServe(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP");
  command->footer(
      "Speaks the OpenAI, Ollama, TEI, Cohere, Jina, Voyage and Perplexity dialects; /docs lists\n"
      "the routes. Flags may also stand in a TOML file (--config) or in the environment, lists\n"
      "there with commas between. The command line wins, then the environment.\n"
      "SIGTERM finishes what is in work and exits 0; SIGHUP rereads keys, certificate and\n"
      "configuration.\n"
      "  pergola serve --model all-MiniLM-L6-v2 --port 42666");
  auto flags = std::make_shared<ServeFlags>();
  AddFlags(*command, *flags);
  CompleteServing(*command, run,
                  [flags](const SetAgain& set_again) { return RunServe(*flags, set_again); });
}

}  // namespace pergola::cli
