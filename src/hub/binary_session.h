// Requests with bodies of any type to one HTTP(S) server over a connection that stays open, and
// what it says when it refuses them. HttpSession of http_client.h is for JSON, HttpClient for
// downloads.
//
//   BinarySession session("http://127.0.0.1:42690", {});
//   PERGOLA_ASSIGN_OR_RETURN(const std::string_view rows,
//                            session.Post("/v1/embed", "application/x-larql-ffn", ids));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hub/http_client.h"
#include "pergola/status.h"

namespace pergola::hub {

// Thread-confined.
class BinarySession {
 public:
  // `base`: scheme, host and port, perhaps with the beginning of all paths. Of the options the
  // time-outs, the token and ca_file count; a request may take transfer_timeout (0: as long as it
  // goes on).
  BinarySession(std::string base, HttpOptions options);
  ~BinarySession();

  // The answer's body, at most 256 MiB, valid until the next call. Redirects are not followed.
  // UNAVAILABLE: cannot be reached, 429 or 5xx; DEADLINE_EXCEEDED; UNAUTHENTICATED 401, 403;
  // NOT_FOUND 404; else INVALID_ARGUMENT, with what the server says.
  Result<std::string_view> Get(const std::string& path);
  // `type` is the body's and the one that is accepted.
  Result<std::string_view> Post(const std::string& path, const std::string& type,
                                std::string_view body);

  const std::string& base() const { return base_; }
  uint64_t sent_bytes() const { return sent_bytes_; }  // of bodies
  uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct Connection;
  Result<std::string_view> Perform(const std::string& path, const std::string& type);
  Status StatusOfAnswer(const std::string& path, long code) const;

  std::string base_;
  HttpOptions options_;
  std::unique_ptr<Connection> connection_;
  std::string body_;
  uint64_t sent_bytes_ = 0;
  uint64_t received_bytes_ = 0;
};

}  // namespace pergola::hub
