// The gzip content coding: bodies in, answers out.
//
//   Result<std::string> body = Gunzip(request_body, 16 << 20);
//   if (AcceptsGzip(accept_encoding)) body = Gzip(answer);
//
// Not `deflate`: clients disagree on what that word means.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::gateway {

// Inflates one or more gzip members. Allocates at most about max_bytes (the bomb is not unpacked).
// Errors: INVALID_ARGUMENT not gzip, cut short or followed by other bytes; RESOURCE_EXHAUSTED over
// max_bytes.
Result<std::string> Gunzip(std::string_view packed, size_t max_bytes);

// The fastest level: number text shrinks to less than half at some 100 MB/s.
std::string Gzip(std::string_view plain);

// For answers that come in pieces. Thread-compatible.
class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  // Appends to *packed what `plain` gives so far. With `finish`, the end of the stream; no call
  // after it.
  void Append(std::string_view plain, bool finish, std::string* packed);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Does an Accept-Encoding header allow gzip? By name before by '*'; a weight of 0 refuses.
bool AcceptsGzip(std::string_view accept_encoding);

}  // namespace pergola::gateway
