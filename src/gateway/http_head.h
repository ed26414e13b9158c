// The head of an HTTP/1.x request, from raw bytes: found, checked strictly, and parsed.
//
//   HeadScanner scanner;
//   while (scanner.Scan(buffer) == HeadScanner::State::kMore) ReadMore(&buffer);
//   HttpHead head;
//   if (auto error = ParseHead(scanner.head(buffer), &head)) Answer(*error);
//
// Strict on purpose: whatever two HTTP implementations could read differently (and so smuggle a
// request past one of them) is refused: folded lines, lone CR or LF, white space before a colon, a
// second or listed Content-Length, any Transfer-Encoding but one "chunked", both lengths, a missing
// or second Host. No I/O and no third-party type; not for responses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http_types.h"

namespace pergola::gateway {

// An answer that refuses: HTTP status and a message for people, valid UTF-8, at most some 200 bytes
// of the client's input in it.
struct HttpError {
  int status = 400;
  std::string message;
};

// Finds the end of a head while bytes arrive, and the bytes that no head may hold as soon as they
// do, so that a peer that speaks no HTTP is not waited for. Each byte is looked at once.
// Thread-compatible.
class HeadScanner {
 public:
  enum class State { kMore, kComplete, kBad };

  // `buffer` is all bytes since the connection's last request, those of earlier calls included.
  State Scan(std::string_view buffer);

  // Where the request line begins: up to 4 empty lines before it are skipped (RFC 9112, 2.2).
  size_t begin() const { return begin_; }
  // Valid after kComplete: one past the empty line that ends the head.
  size_t end() const { return end_; }
  std::string_view head(std::string_view buffer) const {
    return buffer.substr(begin_, end_ - begin_);
  }
  // Valid after kBad.
  const std::string& error() const { return error_; }

 private:
  State Fail(std::string message);

  size_t position_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t line_begin_ = 0;
  int empty_lines_ = 0;
  bool after_cr_ = false;
  std::string error_;
};

// A checked head. Thread-compatible value.
struct HttpHead {
  std::string method;
  std::string target;                      // as sent
  std::string path;                        // percent-decoded once; "*" for `OPTIONS *`
  std::string query;                       // without '?', not decoded
  int minor_version = 1;                   // HTTP/1.<minor>: 0 or 1
  std::vector<HttpHeader> headers;         // names in lower case, values trimmed
  std::optional<uint64_t> content_length;  // saturates at the largest uint64_t
  bool chunked = false;
  bool keep_alive = true;        // what version and Connection header ask for
  bool expect_continue = false;  // "Expect: 100-continue" of an HTTP/1.1 client

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
  // First header of that (lower case) name; nullopt if none.
  std::optional<std::string_view> header(std::string_view name) const;
  // How many headers of that (lower case) name there are.
  size_t count(std::string_view name) const;
};

// Checks and parses `bytes`, a whole head with its closing empty line. nullopt: *head is filled.
// Otherwise the answer to give before closing: 400; 417 (Expect); 431 (over 1,000 fields); 505
// (version). *head then holds what was understood; its path is set if the request line was.
std::optional<HttpError> ParseHead(std::string_view bytes, HttpHead* head);

// Decodes %XX once; nullopt for a bad escape or one of NUL.
std::optional<std::string> PercentDecode(std::string_view text);

// Up to 80 bytes of a client's text for an error message: printable ASCII, other bytes as '?'.
std::string Printable(std::string_view text);

// tchar of RFC 9110, 5.6.2: what methods and field names are made of.
bool IsTokenChar(char c);
// 0..15, or -1.
int HexValue(char c);

}  // namespace pergola::gateway
