#include "gateway/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <utility>

#include "core/ascii.h"
#include "service/bearer_key.h"

namespace pergola::gateway {
namespace {

using Digest = std::array<uint8_t, 32>;

Digest DigestOf(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

// The word that begins `line`, which loses it and the blanks behind it.
std::string_view TakeWord(std::string_view* line) {
  const size_t end = std::min(line->find_first_of(" \t"), line->size());
  const std::string_view word = line->substr(0, end);
  *line = Trimmed(line->substr(end));
  return word;
}

// "requests_per_minute=600". The value is not echoed: it may be a part of a key.
Status ReadLimit(std::string_view word, KeyLimits* limits) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  int64_t* const value = name == "requests_per_minute" ? &limits->requests_per_minute
                         : name == "tokens_per_minute" ? &limits->tokens_per_minute
                         : name == "concurrent"        ? &limits->concurrent
                                                       : nullptr;
  if (value == nullptr) {
    return InvalidArgumentError(
        "a key is printable ASCII without blanks; behind it may stand requests_per_minute=N, "
        "tokens_per_minute=N and concurrent=N");
  }
  const std::string_view digits = word.substr(std::min(equals + 1, word.size()));
  constexpr int64_t kMost = int64_t{1} << 40;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  if (error != std::errc() || end != digits.data() + digits.size() || *value < 1 ||
      *value > kMost) {
    return InvalidArgumentError(std::string(name) + " must be a number from 1 to " +
                                std::to_string(kMost));
  }
  return OkStatus();
}

struct ReadKey {
  Digest digest;
  KeyLimits limits;
};

Status ReadLine(std::string_view line, ReadKey* key) {
  const std::string_view text = TakeWord(&line);
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
    return InvalidArgumentError("a key is printable ASCII without blanks");
  }
  key->digest = DigestOf(text);
  while (!line.empty()) PERGOLA_RETURN_IF_ERROR(ReadLimit(TakeWord(&line), &key->limits));
  return OkStatus();
}

Result<std::vector<ReadKey>> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    const std::string message = "API key file '" + path + "' cannot be read";
    return errno == EACCES ? PermissionDeniedError(message) : NotFoundError(message);
  }
  std::vector<ReadKey> keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    const std::string_view content = Trimmed(line);
    if (content.empty() || content.front() == '#') continue;
    ReadKey key;
    Status status = ReadLine(content, &key);
    const bool twice = std::any_of(
        keys.begin(), keys.end(), [&](const ReadKey& other) { return other.digest == key.digest; });
    if (status.ok() && twice) status = InvalidArgumentError("this key was there before");
    if (!status.ok()) {
      return status.WithContext("API key file '" + path + "', line " + std::to_string(number));
    }
    keys.push_back(key);
  }
  if (keys.empty()) return InvalidArgumentError("API key file '" + path + "' holds no key");
  return keys;
}

}  // namespace

std::unique_ptr<ApiKeys> ApiKeys::Of(std::string_view key) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(""));
  keys->keys_.push_back({DigestOf(key), nullptr});
  return keys;
}

Result<std::unique_ptr<ApiKeys>> ApiKeys::Load(std::string path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(std::move(path)));
  PERGOLA_RETURN_IF_ERROR(keys->Reload());
  return keys;
}

Status ApiKeys::Reload() {
  if (path_.empty()) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<ReadKey> read, ReadFile(path_));
  const service::Clock::time_point now = service::Clock::now();
  const std::lock_guard lock(mutex_);
  std::vector<Key> keys;
  for (const ReadKey& each : read) {
    const Key* const before = FindDigest(each.digest);
    std::shared_ptr<KeyUsage> usage = before != nullptr ? before->usage : nullptr;
    if (usage != nullptr) {
      usage->SetLimits(each.limits, now);
    } else if (each.limits.any()) {
      usage = std::make_shared<KeyUsage>(each.limits, now);
    }
    keys.push_back({each.digest, std::move(usage)});
  }
  keys_ = std::move(keys);
  return OkStatus();
}

const ApiKeys::Key* ApiKeys::FindDigest(const Digest& digest) const {
  const Key* found = nullptr;
  for (const Key& key : keys_) {  // all of them, whichever it is
    if (CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0) found = &key;
  }
  return found;
}

ApiKeys::Match ApiKeys::Find(std::string_view authorization) const {
  const std::string_view given = service::BearerKey(authorization);
  if (given.empty()) return {};
  const Digest digest = DigestOf(given);
  const std::lock_guard lock(mutex_);
  const Key* const key = FindDigest(digest);
  if (key == nullptr) return {};
  return {static_cast<int>(key - keys_.data()), key->usage};
}

bool ApiKeys::Has(std::string_view key) const {
  const Digest digest = DigestOf(key);
  const std::lock_guard lock(mutex_);
  return FindDigest(digest) != nullptr;
}

size_t ApiKeys::size() const {
  const std::lock_guard lock(mutex_);
  return keys_.size();
}

}  // namespace pergola::gateway
