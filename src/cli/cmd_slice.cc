#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/layer_range.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "engine/slicer.h"
#include "hub/file_sink.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

namespace fs = std::filesystem;

struct SliceFlags {
  std::string model;
  std::string part;
  std::string layers;
  std::string output;
  bool dry_run = false;
  bool offline = false;
};

// A slice that was asked for and where it goes.
struct Job {
  engine::SliceRequest request;
  fs::path path;
};

Result<std::vector<Job>> JobsOf(const SliceFlags& flags) {
  std::optional<models::LayerRange> layers;
  if (!flags.layers.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(layers, ParseLayerRange(flags.layers));
  }
  std::vector<Job> jobs;
  if (flags.part != "all") {
    jobs.push_back({{.part = *engine::FindModelPart(flags.part), .layers = layers}, flags.output});
    return jobs;
  }
  for (const engine::ModelPart part :
       {engine::ModelPart::kEmbed, engine::ModelPart::kHead, engine::ModelPart::kFfn,
        engine::ModelPart::kAttention, engine::ModelPart::kClient}) {
    jobs.push_back({{.part = part, .layers = layers},
                    fs::path(flags.output) / std::string(engine::ModelPartName(part))});
  }
  return jobs;
}

int64_t SizeOf(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return bytes;
}

Status RunJob(const engine::Checkpoint& checkpoint, const Job& job, bool dry_run,
              int64_t whole_bytes) {
  PERGOLA_ASSIGN_OR_RETURN(const engine::SlicePlan plan,
                           engine::PlanSlice(checkpoint, job.request));
  int64_t bytes = plan.tensor_bytes;
  if (!dry_run) {
    std::error_code error;
    if (job.path.has_parent_path()) fs::create_directories(job.path.parent_path(), error);
    PERGOLA_RETURN_IF_ERROR(
        formats::WriteSlice(job.path.string(), plan.facts, plan.files, plan.metadata));
    bytes = SizeOf(job.path);
  }
  std::printf("%-10s %10s of %s  %4.1f %%  %s\n", plan.facts.part.c_str(),
              hub::HumanBytes(bytes).c_str(), hub::HumanBytes(whole_bytes).c_str(),
              100.0 * static_cast<double>(bytes) / static_cast<double>(whole_bytes),
              job.path.c_str());
  return OkStatus();
}

int RunSlice(const SliceFlags& flags) {
  const auto jobs = JobsOf(flags);
  if (!jobs.ok()) {
    std::fprintf(stderr, "pergola: %s\n", jobs.status().message().c_str());
    return kExitUsage;
  }
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/false);
  const Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return Fail(location.status());
  const auto checkpoint = engine::OpenCheckpoint(location->path.string());
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  int64_t whole_bytes = 0;
  for (const formats::TensorInfo& tensor : checkpoint->source->tensors()) {
    whole_bytes += tensor.view.bytes();
  }
  const Result<std::string> identity = engine::IdentityOf(*checkpoint);
  if (!identity.ok()) return Fail(identity.status());
  std::printf("%s  identity %s\n", location->id.c_str(), identity->c_str());
  for (Job job : *jobs) {
    job.request.model = location->id;
    job.request.identity = *identity;
    const Status status = RunJob(*checkpoint, job, flags.dry_run, whole_bytes);
    if (!status.ok()) return Fail(status);
  }
  return kExitOk;
}

}  // namespace

void AddSlice(CLI::App& app, Run* run) {
  CLI::App* command =
      app.add_subcommand("slice", "Write some parts of a language model for a split run");
  command->footer(
      "Parts: embed (table and projection), head, ffn (feed-forward layers), attention, client\n"
      "(attention and the final norm), all (each in its folder of the output).\n\n"
      "  pergola slice gemma-3-270m --part client -o client\n"
      "  pergola slice gemma-3-270m --part ffn --layers 0-8 -o ffn-0-8");
  auto flags = std::make_shared<SliceFlags>();
  command->add_option("model", flags->model, "Registry name, hub id, folder or .gguf file")
      ->required();
  command->add_option("--part", flags->part, "What to write")
      ->required()
      ->check(CLI::IsMember({"embed", "head", "ffn", "attention", "client", "all"}));
  command->add_option("--layers", flags->layers, "Feed-forward layers, first-last (all)");
  command->add_option("-o,--output", flags->output, "Directory to make")->required();
  command->add_flag("--dry-run", flags->dry_run, "Only print the sizes");
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->callback([flags, run] { *run = [flags] { return RunSlice(*flags); }; });
}

}  // namespace pergola::cli
