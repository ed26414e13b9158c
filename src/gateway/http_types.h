// HTTP messages as the routes see them: parsed, limited, decompressed; no socket, no library type.
//
// http_server.h reads and writes them; routes.h answers them. Between the two stands HttpHandler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/inference_service.h"

namespace pergola::gateway {

class KeyUsage;
class RequestTrace;

struct HttpHeader {
  std::string name;  // lower case
  std::string value;
};

struct HttpRequest {
  std::string method;      // "GET"; HEAD arrives as "HEAD"
  std::string path;        // percent-decoded once, without query
  std::string raw_target;  // as sent
  std::string query;       // without '?', not decoded
  std::vector<HttpHeader> headers;
  std::string body;                     // whole, inflated, at most max_body_bytes
  int api_key = -1;                     // number of the key used; -1: none
  std::shared_ptr<KeyUsage> key_usage;  // null: no limits of a key. Second owner: the keys
  std::shared_ptr<RequestTrace> trace;  // null: nobody asks. Second owner: the connection
  std::string request_id;               // taken over from the client if sane, else made
  service::Clock::time_point received;  // when the whole request was there
  // The client gets 504 then, whatever the handler does: pass it on with the work. max(): none.
  service::Clock::time_point deadline = service::Clock::time_point::max();
  // Set when the client goes away or the deadline passes. Never null.
  std::shared_ptr<service::CancelToken> cancel;  // second owner: the connection
  // Whether Handle may hold the calling thread for as long as it likes.
  bool may_block = false;

  // First header of that (lower case) name; nullopt if none.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  // Besides those the server adds (x-request-id, nosniff, date, ...).
  std::vector<HttpHeader> headers;
  std::string body;
  // For answers too large to hold: called until it returns false; each call appends some bytes to
  // *chunk (at most ~1 MiB). When set, `body` is the beginning. Sent chunked, under back-pressure.
  std::function<bool(std::string* chunk)> next_chunk;
};

// Called once, from any thread.
using HttpRespond = std::function<void(HttpResponse)>;

// Answers requests. Thread-safe: called from several network threads; must not block them for long:
// work that takes more than some 100 us moves to another thread, unless request.may_block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Is there such a route? For answers the server itself gives before a body is read (404, 405,
  // 413, 415, 401): the handler renders errors in the dialect of the path.
  struct RouteCheck {
    bool path_known = false;
    std::string allow;  // methods of the path, "GET, HEAD"; set when path_known
    bool method_allowed = false;
    bool needs_auth = true;
    bool takes_body = false;
    bool form_content_type_ok = false;  // plain `curl -d` is accepted here
    std::string other_media_type;       // of bodies that are accepted besides JSON; empty: none
    // Template of the route for metrics and logs, "/v1/models/{id}"; few values. Empty: not known.
    std::string route;
  };
  virtual RouteCheck Check(std::string_view method, std::string_view path) const = 0;

  // Renders an error in the dialect of `path`: body and content type; `status` is the HTTP status.
  virtual HttpResponse RenderError(std::string_view path, int status,
                                   std::string_view message) const = 0;

  virtual void Handle(HttpRequest request, HttpRespond respond) = 0;
};

}  // namespace pergola::gateway
