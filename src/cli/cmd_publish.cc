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
#include "hub/hub_config.h"
#include "hub/hub_upload.h"
#include "hub/remote_file.h"
#include "hub/slice_publish.h"

namespace pergola::cli {
namespace {

namespace fs = std::filesystem;

struct PublishFlags {
  std::vector<std::string> folders;
  std::string output;
  std::string owner;  // on the hub
  std::string revision = "main";
  bool private_repositories = false;
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

// Its files and card to OWNER/NAME, after their checksums are right.
Status Upload(const fs::path& slice, const hub::SliceIndex& index, const std::string& card,
              const PublishFlags& flags) {
  std::vector<hub::UploadFile> files = {{"README.md", {}, card},
                                        {"index.json", slice / "index.json"}};
  for (const hub::RemoteFile& file : index.files) {
    PERGOLA_RETURN_IF_ERROR(
        hub::VerifyFile(file, slice / file.path).status().WithContext(slice.string()));
    files.push_back({file.path, slice / file.path});
  }
  hub::UploadOptions options;
  options.revision = flags.revision;
  options.message = "Publish " + index.slice.name;
  options.private_repository = flags.private_repositories;
  const std::string repository = flags.owner + "/" + index.slice.name;
  PERGOLA_ASSIGN_OR_RETURN(
      const hub::UploadOutcome outcome,
      hub::UploadFiles(hub::HubConfig::FromEnvironment(), repository, files, options));
  std::printf("%-40s %10s uploaded, %10s unchanged\n", repository.c_str(),
              hub::HumanBytes(outcome.uploaded_bytes).c_str(),
              hub::HumanBytes(outcome.unchanged_bytes).c_str());
  return OkStatus();
}

Status Publish(const fs::path& slice, const PublishFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const formats::SliceFacts facts,
                           formats::ReadSliceFacts(slice.string()));
  PERGOLA_ASSIGN_OR_RETURN(hub::SliceIndex index, hub::ReadSliceIndex(slice));
  index.slice.name = PublishedName(facts);
  const std::string card = SliceCard(facts, index, flags.base);
  if (!flags.owner.empty()) PERGOLA_RETURN_IF_ERROR(Upload(slice, index, card, flags));
  if (flags.output.empty()) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(const hub::PublishOutcome outcome,
                           hub::PublishSlice(slice, index, flags.output, card));
  std::printf("%-40s %10s copied, %10s unchanged\n", index.slice.name.c_str(),
              hub::HumanBytes(outcome.copied_bytes).c_str(),
              hub::HumanBytes(outcome.unchanged_bytes).c_str());
  return OkStatus();
}

int RunPublish(const PublishFlags& flags) {
  if (flags.output.empty() && flags.owner.empty()) {
    return Fail(InvalidArgumentError("publish needs --output, --owner, or both"));
  }
  if (flags.owner.find_first_of("/?#%\\ \t\r\n") != std::string::npos) {
    return Fail(InvalidArgumentError("--owner '" + flags.owner + "' is no name of a user"));
  }
  for (const std::string& folder : flags.folders) {
    const auto slices = SlicesIn(folder);
    if (!slices.ok()) return Fail(slices.status());
    for (const fs::path& slice : *slices) {
      if (const Status status = Publish(slice, flags); !status.ok()) return Fail(status);
    }
  }
  if (flags.output.empty()) return kExitOk;
  const Status status = hub::WriteSliceList(flags.output);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddPublish(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand(
      "publish", "Put slices into a folder or a hub, a repository with a card each");
  command->footer(
      "Any web server can offer the folder; spares of a grid fetch from it with --slice-source "
      "URL.\n"
      "Files whose SHA-256 is right are left alone, and a run that was interrupted is "
      "continued. --owner uploads to a hub of the Hugging Face layout: a commit each.\n\n"
      "  pergola slice gemma-3-270m --part all -o slices\n"
      "  pergola publish slices -o /srv/slices --base-model google/gemma-3-270m\n"
      "  HF_TOKEN=... pergola publish slices --owner someone --base-model google/gemma-3-270m");
  auto flags = std::make_shared<PublishFlags>();
  command->add_option("slices", flags->folders, "Slices, or folders of slices")->required();
  command->add_option("-o,--output", flags->output, "Folder of the repositories");
  command->add_option("--owner", flags->owner,
                      "Upload to OWNER/NAME of the hub HF_ENDPOINT with the token HF_TOKEN");
  command->add_option("--revision", flags->revision, "Branch of the upload")->capture_default_str();
  command->add_flag("--private", flags->private_repositories, "Repositories that are made");
  command->add_option("--base-model", flags->base, "What the cards call the whole model");
  command->callback([flags, run] { *run = [flags] { return RunPublish(*flags); }; });
}

}  // namespace pergola::cli
