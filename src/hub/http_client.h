// HTTP(S) GET with the manners a download needs: resume by Range, redirects that keep the token at
// home, time-outs, byte limits. One attempt per call; who retries decides by DownloadAttempt.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "pergola/status.h"

namespace pergola::hub {

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds stall_timeout{20000};
  // Sent as "Authorization: Bearer" to the origin (scheme, host, port) of the first URL only.
  std::string token;
  // PEM file of the authorities that an https server is checked with; empty: the system's.
  std::string ca_file = {};
  // When set and true, a transfer under way ends with CANCELLED. Must outlive the call.
  const std::atomic<bool>* cancel = nullptr;
  std::chrono::milliseconds transfer_timeout{0};  // of a whole transfer; 0: none
};

struct TextResponse {
  std::string body;
  std::string next_url;  // of the Link header's rel="next", or empty
};

// What came of one attempt to download.
struct DownloadAttempt {
  Status status;
  bool retryable =
      false;  // a cut connection, a stall, a 5xx: the same request may succeed next time
};

// Thread-safe: no state but the options.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);

  // At most 64 MiB. UNAVAILABLE: cannot be reached; UNAUTHENTICATED 401/403; NOT_FOUND 404.
  Result<TextResponse> GetText(const std::string& url) const;

  // Appends to the file at `path` until it has `expected_bytes`, from what it holds already; starts
  // over if the server does not continue. `on_bytes` gets the file's length as it changes.
  DownloadAttempt Download(const std::string& url, const std::filesystem::path& path,
                           int64_t expected_bytes,
                           const std::function<void(int64_t)>& on_bytes) const;

 private:
  HttpOptions options_;
};

// "scheme://host:port" with the default port written out and the host in lower case; empty if `url`
// is neither http nor https.
std::string UrlOrigin(const std::string& url);

// Percent-encodes all but unreserved characters and '/'.
std::string UrlEscapePath(const std::string& path);

}  // namespace pergola::hub
