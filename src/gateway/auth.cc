#include "gateway/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "gateway/http_head.h"

namespace pergola::gateway {
namespace {

std::array<uint8_t, 32> DigestOf(std::string_view key) {
  std::array<uint8_t, 32> digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

}  // namespace

Result<std::unique_ptr<ApiKeys>> ApiKeys::Load(std::string path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(std::move(path)));
  PERGOLA_RETURN_IF_ERROR(keys->Reload());
  return keys;
}

Status ApiKeys::Reload() {
  errno = 0;
  std::ifstream file(path_);
  if (!file) {
    const std::string message = "API key file '" + path_ + "' cannot be read";
    return errno == EACCES ? PermissionDeniedError(message) : NotFoundError(message);
  }
  std::vector<Digest> digests;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    const std::string_view key = Trimmed(line);
    if (key.empty() || key.front() == '#') continue;
    if (!std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
      return InvalidArgumentError("API key file '" + path_ + "', line " + std::to_string(number) +
                                  ": a key is printable ASCII without blanks");
    }
    digests.push_back(DigestOf(key));
  }
  if (digests.empty()) return InvalidArgumentError("API key file '" + path_ + "' holds no key");
  const std::lock_guard lock(mutex_);
  digests_ = std::move(digests);
  return OkStatus();
}

int ApiKeys::Find(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size() ||
      !EqualsIgnoringCase(authorization.substr(0, kScheme.size()), kScheme)) {
    return -1;
  }
  const Digest digest = DigestOf(Trimmed(authorization.substr(kScheme.size())));
  const std::lock_guard lock(mutex_);
  int found = -1;
  for (size_t key = 0; key < digests_.size(); ++key) {  // all of them, whichever it is
    if (CRYPTO_memcmp(digests_[key].data(), digest.data(), digest.size()) == 0) {
      found = static_cast<int>(key);
    }
  }
  return found;
}

size_t ApiKeys::size() const {
  const std::lock_guard lock(mutex_);
  return digests_.size();
}

}  // namespace pergola::gateway
