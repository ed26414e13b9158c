#include "hub/hub_source.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "hub/http_client.h"

namespace pergola::hub {
namespace {

constexpr int kMaxFruitlessAttempts = 5;
constexpr int kMaxAttempts = 1000;
constexpr int kMaxPages = 100;
constexpr std::chrono::milliseconds kFirstPause{100};

int64_t LengthOf(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

class HubSource : public ModelSource {
 public:
  HubSource(const HubConfig& config, ModelReference reference, std::string revision,
            const RegistryModel* registry_model)
      : config_(config),
        reference_(std::move(reference)),
        revision_(std::move(revision)),
        registry_model_(registry_model) {}

  std::string_view name() const override { return "hub"; }
  Result<SourceListing> List() override;
  int64_t NeededBytes(const std::vector<RemoteFile>& files) const override;
  Status Fetch(const std::vector<RemoteFile>& files, PullWorkspace& workspace) override;

 private:
  HttpClient Client(const std::atomic<bool>* cancel) const {
    return HttpClient({.connect_timeout = config_.connect_timeout,
                       .stall_timeout = config_.stall_timeout,
                       .token = config_.token,
                       .cancel = cancel});
  }
  Status FetchFile(const HttpClient& client, const RemoteFile& file,
                   PullWorkspace& workspace) const;
  Status Transfer(const HttpClient& client, const RemoteFile& file, PullWorkspace& workspace) const;

  const HubConfig& config_;
  ModelReference reference_;
  std::string revision_;
  const RegistryModel* registry_model_;
};

Result<SourceListing> HubSource::List() {
  if (registry_model_ != nullptr && !registry_model_->files.empty()) {
    SourceListing listing{{}, std::string(registry_model_->entry)};
    for (const RegistryFile& file : registry_model_->files) {
      listing.files.push_back({std::string(file.path), file.bytes, std::string(file.sha256), ""});
    }
    return listing;
  }
  const HttpClient client = Client(nullptr);
  std::vector<RemoteFile> all;
  std::string url = config_.endpoint + "/api/models/" + reference_.id + "/tree/" +
                    UrlEscapePath(revision_) + "?recursive=true";
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMaxPages) return ResourceExhaustedError("the hub's listing has over 100 pages");
    // The token goes to the origin of each URL asked for, so that must stay the hub's own.
    if (UrlOrigin(url) != UrlOrigin(config_.endpoint)) {
      return DataLossError("the hub's listing continues on another host: " + url);
    }
    PERGOLA_ASSIGN_OR_RETURN(TextResponse response, client.GetText(url));
    PERGOLA_ASSIGN_OR_RETURN(std::vector<RemoteFile> files, ParseTree(response.body));
    std::move(files.begin(), files.end(), std::back_inserter(all));
    url = response.next_url;
  }
  return SelectFiles(all, reference_.variant);
}

int64_t HubSource::NeededBytes(const std::vector<RemoteFile>& files) const {
  int64_t total = 0;
  for (const RemoteFile& file : files) total += file.bytes;
  return total;
}

Status HubSource::Fetch(const std::vector<RemoteFile>& files, PullWorkspace& workspace) {
  std::vector<const RemoteFile*> queue;
  for (const RemoteFile& file : files) queue.push_back(&file);
  std::stable_sort(queue.begin(), queue.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  workspace.SetTotal(NeededBytes(files));
  workspace.cancel() = false;
  const HttpClient client = Client(&workspace.cancel());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status first_error;
  const auto work = [&] {
    for (size_t index = next++; index < queue.size() && !workspace.cancel(); index = next++) {
      const Status status = FetchFile(client, *queue[index], workspace);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (first_error.ok()) first_error = status;
      workspace.cancel() = true;
    }
  };
  std::vector<std::thread> workers;
  const size_t count = std::min<size_t>(queue.size(), std::max(1, config_.parallel_files));
  for (size_t i = 0; i < count; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return first_error;
}

// Data continued from an earlier pull may belong to an older revision: once wrong, it is fetched
// anew.
Status HubSource::FetchFile(const HttpClient& client, const RemoteFile& file,
                            PullWorkspace& workspace) const {
  const std::filesystem::path path = workspace.Incoming(file.path);
  for (int round = 0;; ++round) {
    const bool continued = LengthOf(path) > 0;
    PERGOLA_RETURN_IF_ERROR(Transfer(client, file, workspace));
    const Status status = workspace.Admit(file, path);
    if (status.ok() || status.code() != StatusCode::kDataLoss || !continued || round > 0) {
      return status;
    }
  }
}

Status HubSource::Transfer(const HttpClient& client, const RemoteFile& file,
                           PullWorkspace& workspace) const {
  const std::filesystem::path path = workspace.Incoming(file.path);
  const std::string url = config_.endpoint + "/" + reference_.id + "/resolve/" +
                          UrlEscapePath(revision_) + "/" + UrlEscapePath(file.path);
  const auto on_bytes = [&](int64_t bytes) { workspace.SetBytes(file.path, bytes); };
  int fruitless = 0;
  for (int attempt = 0;; ++attempt) {
    const int64_t before = LengthOf(path);
    const DownloadAttempt result = client.Download(url, path, file.bytes, on_bytes);
    if (result.status.ok() || !result.retryable || attempt == kMaxAttempts) return result.status;
    fruitless = LengthOf(path) > before ? 0 : fruitless + 1;
    if (fruitless == kMaxFruitlessAttempts || workspace.cancel()) return result.status;
    std::this_thread::sleep_for(kFirstPause * (1 << fruitless));
  }
}

}  // namespace

std::unique_ptr<ModelSource> MakeHubSource(const HubConfig& config, ModelReference reference,
                                           std::string revision,
                                           const RegistryModel* registry_model) {
  return std::make_unique<HubSource>(config, std::move(reference), std::move(revision),
                                     registry_model);
}

}  // namespace pergola::hub
