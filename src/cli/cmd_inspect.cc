#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/inspect_report.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "cli/verify_tensors.h"
#include "formats/tensor_source.h"
#include "hub/digest.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

struct InspectFlags {
  std::string model;
  bool offline = false;
  bool json = false;
  bool verify = false;
  bool full = false;
};

// Any file or folder that exists, else what --model means elsewhere.
Result<std::string> Locate(const InspectFlags& flags) {
  std::error_code error;
  if (std::filesystem::exists(flags.model, error)) return flags.model;
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/false);
  Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  return location->path.string();
}

int Inspect(const InspectFlags& flags) {
  const Result<std::string> path = Locate(flags);
  if (!path.ok()) return Fail(path.status());
  const auto source = formats::OpenTensorSource(*path);
  if (!source.ok()) return Fail(source.status());
  Inspection inspection;
  inspection.source = source->get();
  if (flags.full) inspection.max_array_values = std::numeric_limits<size_t>::max();
  for (const std::string& file : (*source)->files()) {
    std::error_code error;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file, error));
    inspection.files.push_back({file, error ? 0 : bytes, ""});
    if (!flags.verify) continue;
    const Result<std::string> digest = hub::Sha256OfFile(file);
    if (!digest.ok()) return Fail(digest.status());
    inspection.files.back().sha256 = *digest;
  }
  if (flags.verify) inspection.non_finite = FindNonFinite(**source);
  const std::string report = flags.json ? InspectionJson(inspection) : InspectionText(inspection);
  std::fwrite(report.data(), 1, report.size(), stdout);
  return flags.verify && !inspection.non_finite->empty() ? kExitFailure : kExitOk;
}

}  // namespace

void AddInspect(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model file");
  command->footer(
      "Shows metadata, every tensor and totals per type of a GGUF or safetensors file, or of a\n"
      "folder with model.safetensors or its shards. --verify reads every byte: SHA-256 of each\n"
      "file and values that are NaN or infinite (exit code 1 when there are any).\n\n"
      "  pergola inspect model.gguf\n"
      "  pergola inspect all-MiniLM-L6-v2\n"
      "  pergola inspect --json --full model.gguf | jq '.metadata[\"tokenizer.ggml.tokens\"]'");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("model", flags->model, "A file, a folder, a registry name or a hub id")
      ->required();
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->add_flag("--json", flags->json, "One JSON object instead of tables");
  command->add_flag("--verify", flags->verify, "Read all bytes: SHA-256, values not finite");
  command->add_flag("--full", flags->full, "Print long arrays of metadata whole");
  command->callback([flags, run] { *run = [flags] { return Inspect(*flags); }; });
}

}  // namespace pergola::cli
