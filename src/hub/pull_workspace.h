// The partial folder of one pull: files verified so far, files half here, and the progress over
// both. Sources put what they transfer below Incoming() and hand it in with Admit(), the only way
// into the model's folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "hub/model_cache.h"
#include "hub/pull_observer.h"
#include "hub/remote_file.h"
#include "pergola/status.h"

namespace pergola::hub {

// Thread-safe. `observer` must outlive it and is never called twice at once.
class PullWorkspace {
 public:
  PullWorkspace(std::filesystem::path folder, PullObserver& observer);

  // Where the half-transferred `name` is kept; `name` must have passed CheckRemotePath.
  std::filesystem::path Incoming(const std::string& name) const;

  // True when the file is here and right, from this or an earlier pull; a damaged one is deleted.
  bool Has(const RemoteFile& file);
  // Checks the file at `path` and moves it in. DATA_LOSS: it is wrong and has been deleted.
  Status Admit(const RemoteFile& file, const std::filesystem::path& path);
  // What has been admitted, sorted by path.
  std::vector<CachedFile> admitted() const;

  // Progress of one item (a file, a package) out of `SetTotal` bytes.
  void SetTotal(int64_t total_bytes);
  void SetBytes(const std::string& item, int64_t bytes);

  // Set by the first worker that fails, read by the others.
  std::atomic<bool>& cancel() { return cancel_; }

 private:
  std::filesystem::path folder_;
  mutable std::mutex mutex_;  // guards all below, and calls of observer_
  PullObserver& observer_;
  std::map<std::string, CachedFile> admitted_;
  std::map<std::string, int64_t> item_bytes_;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
  std::atomic<bool> cancel_{false};
};

}  // namespace pergola::hub
