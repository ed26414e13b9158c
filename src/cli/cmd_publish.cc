#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/slice_card.h"
#include "cli/status_exit.h"
#include "formats/slice.h"
#include "hub/file_sink.h"
#include "hub/slice_publish.h"

namespace pergola::cli {
namespace {

namespace fs = std::filesystem;

struct PublishFlags {
  std::vector<std::string> folders;
  std::string output;
  std::string base;
};

// The slice that `folder` is, or those in it.
Result<std::vector<fs::path>> SlicesIn(const fs::path& folder) {
  if (formats::IsSlice(folder.string())) return std::vector<fs::path>{folder};
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<hub::SliceIndex> found, hub::ScanSlices(folder));
  std::vector<fs::path> paths;
  for (const hub::SliceIndex& index : found) paths.push_back(folder / index.slice.name);
  if (paths.empty()) return NotFoundError(folder.string() + " is no slice and holds none");
  return paths;
}

Status Publish(const fs::path& slice, const PublishFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const formats::SliceFacts facts,
                           formats::ReadSliceFacts(slice.string()));
  PERGOLA_ASSIGN_OR_RETURN(hub::SliceIndex index, hub::ReadSliceIndex(slice));
  index.slice.name = PublishedName(facts);
  PERGOLA_ASSIGN_OR_RETURN(
      const hub::PublishOutcome outcome,
      hub::PublishSlice(slice, index, flags.output, SliceCard(facts, index, flags.base)));
  std::printf("%-40s %10s copied, %10s unchanged\n", index.slice.name.c_str(),
              hub::HumanBytes(outcome.copied_bytes).c_str(),
              hub::HumanBytes(outcome.unchanged_bytes).c_str());
  return OkStatus();
}

int RunPublish(const PublishFlags& flags) {
  for (const std::string& folder : flags.folders) {
    const auto slices = SlicesIn(folder);
    if (!slices.ok()) return Fail(slices.status());
    for (const fs::path& slice : *slices) {
      if (const Status status = Publish(slice, flags); !status.ok()) return Fail(status);
    }
  }
  const Status status = hub::WriteSliceList(flags.output);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddPublish(CLI::App& app, Run* run) {
  CLI::App* command =
      app.add_subcommand("publish", "Put slices into a folder of repositories, each with its card");
  command->footer(
      "Any web server can offer the folder; spares of a grid fetch from it with --slice-source "
      "URL.\n"
      "Files whose SHA-256 is right are left alone, and a run that was interrupted is "
      "continued.\n\n"
      "  pergola slice gemma-3-270m --part all -o slices\n"
      "  pergola publish slices -o /srv/slices --base-model google/gemma-3-270m");
  auto flags = std::make_shared<PublishFlags>();
  command->add_option("slices", flags->folders, "Slices, or folders of slices")->required();
  command->add_option("-o,--output", flags->output, "Folder of the repositories")->required();
  command->add_option("--base-model", flags->base, "What the cards call the whole model");
  command->callback([flags, run] { *run = [flags] { return RunPublish(*flags); }; });
}

}  // namespace pergola::cli
