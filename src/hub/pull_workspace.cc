#include "hub/pull_workspace.h"

#include "hub/file_sink.h"

namespace pergola::hub {

namespace fs = std::filesystem;

PullWorkspace::PullWorkspace(fs::path folder, PullObserver& observer)
    : folder_(std::move(folder)), observer_(observer) {}

fs::path PullWorkspace::Incoming(const std::string& name) const {
  return folder_ / "incoming" / name;
}

bool PullWorkspace::Has(const RemoteFile& file) {
  const fs::path path = folder_ / "files" / file.path;
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  Result<std::string> sha256 = VerifyFile(file, path);
  if (!sha256.ok()) {
    fs::remove(path, error);
    return false;
  }
  const std::lock_guard lock(mutex_);
  admitted_[file.path] = {file.path, file.bytes, *sha256};
  return true;
}

Status PullWorkspace::Admit(const RemoteFile& file, const fs::path& path) {
  std::error_code error;
  Result<std::string> sha256 = VerifyFile(file, path);
  if (!sha256.ok()) {
    fs::remove(path, error);
    return std::move(sha256).status();
  }
  const fs::path target = folder_ / "files" / file.path;
  fs::create_directories(target.parent_path(), error);
  if (error) return WriteError(target.parent_path(), error.value());
  fs::rename(path, target, error);
  if (error) return WriteError(target, error.value());
  const std::lock_guard lock(mutex_);
  admitted_[file.path] = {file.path, file.bytes, *sha256};
  observer_.OnFile(file.path, file.bytes, *sha256);
  return OkStatus();
}

std::vector<CachedFile> PullWorkspace::admitted() const {
  const std::lock_guard lock(mutex_);
  std::vector<CachedFile> files;
  for (const auto& [path, file] : admitted_) files.push_back(file);
  return files;
}

void PullWorkspace::SetTotal(int64_t total_bytes) {
  const std::lock_guard lock(mutex_);
  total_bytes_ = total_bytes;
  item_bytes_.clear();
  done_bytes_ = 0;
  observer_.OnProgress(0, total_bytes_);
}

void PullWorkspace::SetBytes(const std::string& item, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  int64_t& known = item_bytes_[item];
  if (known == bytes) return;
  done_bytes_ += bytes - known;
  known = bytes;
  // A downloader's own temporary copies may count twice for a moment.
  observer_.OnProgress(std::min(done_bytes_, total_bytes_), total_bytes_);
}

}  // namespace pergola::hub
