// Files to a repository of a hub of the Hugging Face layout, as one commit:
//
//   POST <endpoint>/api/repos/create                            the repository, if it isn't there
//   GET  <endpoint>/api/models/<id>/tree/<revision>             what it has: that is not sent again
//   POST <endpoint>/api/models/<id>/preupload/<revision>        which files are large
//   POST <endpoint>/<id>.git/info/lfs/objects/batch             where the large ones go; PUT
//   POST <endpoint>/api/models/<id>/commit/<revision>           the small ones, and all names
//
//   std::vector<UploadFile> files = {{.path = "README.md", .text = card}, {.path = ..., .from =
//   ...}}; PERGOLA_ASSIGN_OR_RETURN(UploadOutcome done, UploadFiles(config, "someone/gemma-ffn",
//   files, {}));
//
// The token of `config` goes to its endpoint alone, not to the storage that the hub names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "hub/hub_config.h"
#include "hub/retry_pause.h"
#include "pergola/status.h"

namespace pergola::hub {

struct UploadFile {
  std::string path;            // in the repository
  std::filesystem::path from;  // the file; empty: `text` is the contents
  std::string text = {};
};

struct UploadOptions {
  std::string revision = "main";
  std::string message = "Upload with pergola";
  bool private_repository = false;  // of a repository that is made
  RetryPolicy retry = {};           // of each request
};

struct UploadOutcome {
  int64_t uploaded_bytes = 0;
  // The hub has them, by SHA-256 or Git's SHA-1: of an earlier commit, or large files that an
  // interrupted run had sent before it could commit them.
  int64_t unchanged_bytes = 0;
};

// Everything is committed together or not at all: whoever reads the repository never sees half of
// it. Run again after an interruption it sends what is missing. Nothing is committed when nothing
// has changed. UNAUTHENTICATED: the token may not write; UNAVAILABLE after options.retry.tries;
// FAILED_PRECONDITION: offline; DATA_LOSS: an answer that is not one; errors of files.
Result<UploadOutcome> UploadFiles(const HubConfig& config, const std::string& repository,
                                  std::span<const UploadFile> files, const UploadOptions& options);

}  // namespace pergola::hub
