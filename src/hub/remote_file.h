// A file that a source offers, with what is known of it before it is fetched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "pergola/status.h"

namespace pergola::hub {

struct RemoteFile {
  std::string path;  // below the model's folder; passed CheckRemotePath
  int64_t bytes = 0;
  std::string sha256;    // empty: not known
  std::string git_sha1;  // of the Git blob, what the hub states for small files; empty: not known
};

// Compares size and checksum of the file at `path` with what is known. DATA_LOSS names the file,
// what was expected and what was found; returns the SHA-256 found.
Result<std::string> VerifyFile(const RemoteFile& expected, const std::filesystem::path& path);

}  // namespace pergola::hub
