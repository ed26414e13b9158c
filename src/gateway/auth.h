// API keys: `Authorization: Bearer <key>` against the keys of a file, and the limits of each.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto keys, ApiKeys::Load("/etc/pergola/keys"));
//   const ApiKeys::Match match = keys->Find(authorization);
//   if (match.number < 0) Refuse();
//
// The file holds one key a line and behind it its limits, if it has any:
//
//   sk-search  requests_per_minute=600 tokens_per_minute=2000000 concurrent=16
//
// Blanks around it, empty lines and lines that begin with '#' are skipped. Keys are kept and
// compared as SHA-256 digests: the time of a comparison tells nothing of a key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/key_usage.h"
#include "pergola/status.h"

namespace pergola::gateway {

// Thread-safe.
class ApiKeys {
 public:
  struct Match {
    int number = -1;  // of the key, from 0, in file order; -1: no such key
    // Null: a key without limits. Second owners: the requests in work.
    std::shared_ptr<KeyUsage> usage;
  };

  // Errors: NOT_FOUND, PERMISSION_DENIED (the file), INVALID_ARGUMENT (no key in it, a key that is
  // there twice or holds a byte that no header may hold, a limit that is none; the line is named,
  // never the key).
  static Result<std::unique_ptr<ApiKeys>> Load(std::string path);

  // The one key, without limits.
  static std::unique_ptr<ApiKeys> Of(std::string_view key);

  // Reads the file again; what Of made has none and stays as it is. What a key has used counts on.
  // On an error all stays as it was.
  Status Reload();

  // The key that an Authorization header gives. Takes the same time whichever key it is; the
  // scheme's case does not matter.
  Match Find(std::string_view authorization) const;

  // Whether the key by itself is one of them. Takes the same time whichever key it is.
  bool Has(std::string_view key) const;

  size_t size() const;

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Key {
    Digest digest;
    std::shared_ptr<KeyUsage> usage;
  };
  explicit ApiKeys(std::string path) : path_(std::move(path)) {}
  const Key* FindDigest(const Digest& digest) const;  // mutex_ held

  const std::string path_;
  mutable std::mutex mutex_;
  std::vector<Key> keys_;  // guarded by mutex_
};

}  // namespace pergola::gateway
