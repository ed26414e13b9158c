// The head of an answer as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http_types.h"

namespace pergola::gateway {

// How the client finds the end of the body.
enum class BodyFraming {
  kLength,   // Content-Length
  kChunked,  // Transfer-Encoding: chunked
  kClose,    // the connection ends with it (HTTP/1.0 and a body of unknown length)
  kNone,     // a status without a body (204, 304)
};

struct ResponseFrame {
  BodyFraming framing = BodyFraming::kLength;
  uint64_t length = 0;  // for kLength
  bool keep_alive = true;
  int minor_version = 1;  // of the request
  bool gzip = false;
  bool varies_by_coding = false;  // would have been gzip for another client
  std::string_view request_id;
  std::string_view allow_origin;  // empty: no CORS
};

// Status line and all headers, closing empty line included. A control byte in a header of
// `response` becomes a blank: no header can be smuggled in by a value.
std::string ResponseHead(const HttpResponse& response, const ResponseFrame& frame);

// "Not Found"; "Status" for a number that is not known.
std::string_view ReasonPhrase(int status);

}  // namespace pergola::gateway
