// Requests to one HTTP(S) server over a connection that stays open, and what it says when it
// refuses them. HttpClient of http_client.h is for downloads, which follow redirects and are
// continued.
//
//   HttpSession session("http://127.0.0.1:42690", {});
//   PERGOLA_ASSIGN_OR_RETURN(const std::string_view rows,
//                            session.Post("/v1/embed", "application/x-larql-ffn", ids));
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hub/http_client.h"
#include "pergola/status.h"

namespace pergola::hub {

// Names and values, of printable ASCII.
using RequestHeaders = std::vector<std::pair<std::string, std::string>>;

// Thread-confined.
class HttpSession {
 public:
  // `base`: scheme, host and port, perhaps with the beginning of all paths. Of the options the
  // time-outs, the token and ca_file count; a request may take transfer_timeout (0: as long as it
  // goes on).
  HttpSession(std::string base, HttpOptions options);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // The answer's body, at most 256 MiB, valid until the next call. Redirects are not followed.
  // UNAVAILABLE: cannot be reached, 429 or 5xx; DEADLINE_EXCEEDED; UNAUTHENTICATED 401, 403;
  // NOT_FOUND 404; ALREADY_EXISTS 409; else INVALID_ARGUMENT, with what the server says.
  // `path`: behind the base, or a URL of its own, which gets the token only on the base's origin.
  Result<std::string_view> Get(const std::string& path);
  // `type` is the body's and the one that is accepted. `headers` take the place of what the session
  // says itself under the same name.
  Result<std::string_view> Post(const std::string& path, const std::string& type,
                                std::string_view body, const RequestHeaders& headers = {});
  // Sends `bytes` bytes of a file from `offset` on, read as they go. Errors as of Post, and those
  // of the file. The answer's ETag; empty: it has none.
  Result<std::string> PutFile(const std::string& path, const std::filesystem::path& file,
                              int64_t offset, int64_t bytes, const RequestHeaders& headers = {});

  // Of the last answer's Retry-After; none: it had none, or none came.
  std::optional<std::chrono::seconds> retry_after() const { return retry_after_; }

  const std::string& base() const { return base_; }
  uint64_t sent_bytes() const { return sent_bytes_; }  // of bodies
  uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct Connection;
  // `type`: of the body and the one that is accepted; empty: neither is said.
  Result<std::string_view> Perform(const std::string& path, const std::string& type,
                                   const RequestHeaders& headers);
  Status StatusOfAnswer(const std::string& url, long code) const;

  std::string base_;
  HttpOptions options_;
  std::unique_ptr<Connection> connection_;
  std::string body_;
  std::optional<std::chrono::seconds> retry_after_;
  uint64_t sent_bytes_ = 0;
  uint64_t received_bytes_ = 0;
};

}  // namespace pergola::hub
