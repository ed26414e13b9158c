// API keys: `Authorization: Bearer <key>` against the keys of a file.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto keys, ApiKeys::Load("/etc/pergola/keys"));
//   if (keys->Find(authorization) < 0) Refuse();
//
// The file holds one key a line; blanks around it, empty lines and lines that begin with '#' are
// skipped. Keys are kept and compared as SHA-256 digests: the time of a comparison tells nothing of
// a key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"

namespace pergola::gateway {

// Thread-safe.
class ApiKeys {
 public:
  // Errors: NOT_FOUND, PERMISSION_DENIED (the file), INVALID_ARGUMENT (no key in it, or a key holds
  // a blank or a byte that no header may hold; the line is named, never the key).
  static Result<std::unique_ptr<ApiKeys>> Load(std::string path);

  // Reads the file again. On an error the keys stay as they were.
  Status Reload();

  // Number of the key (from 0, in file order) that an Authorization header gives, or -1. Takes the
  // same time whichever key it is; the scheme's case does not matter.
  int Find(std::string_view authorization) const;

  size_t size() const;

 private:
  using Digest = std::array<uint8_t, 32>;
  explicit ApiKeys(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  mutable std::mutex mutex_;
  std::vector<Digest> digests_;  // guarded by mutex_
};

}  // namespace pergola::gateway
