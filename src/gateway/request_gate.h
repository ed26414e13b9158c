// What is decided from a request's head alone, before a byte of its body is read: route, method,
// key, content type and coding, size, timeout, CORS.
//
//   GateDecision decision = gate.Decide(head);
//   if (decision.answer) Send(*decision.answer);   // 204, 400, 401, 404, 405, 413 or 415
//
// Every error is rendered by the handler in the dialect of the path.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/auth.h"
#include "gateway/http_head.h"
#include "gateway/http_server.h"
#include "gateway/http_types.h"

namespace pergola::gateway {

struct GateDecision {
  std::optional<HttpResponse> answer;  // set: answer this, the body is not wanted
  HttpHandler::RouteCheck route;
  bool gunzip = false;                   // the body is gzip
  bool gzip_answer = false;              // the client takes gzip
  std::chrono::milliseconds timeout{0};  // 0: none
  ApiKeys::Match key;                    // the key given
  std::string allow_origin;              // value of access-control-allow-origin; empty: no CORS
};

// Thread-safe. `options`, `handler` and `keys` (null: no keys needed) must outlive it.
class RequestGate {
 public:
  RequestGate(const HttpServerOptions& options, const HttpHandler& handler, const ApiKeys* keys)
      : options_(options), handler_(handler), keys_(keys) {}

  GateDecision Decide(const HttpHead& head) const;

  // An error in the dialect of `path`, with the headers its status needs (Retry-After, ...).
  HttpResponse Error(std::string_view path, int status, std::string_view message) const;

  // The messages that name a limit.
  HttpResponse BodyTooLarge(std::string_view path) const;
  HttpResponse HeadTooLarge() const;
  HttpResponse HeadTooSlow() const;
  HttpResponse BodyTooSlow(std::string_view path) const;
  // The server drains and the request did not come whole in the time that is left for it.
  HttpResponse Stopping(std::string_view path) const;

 private:
  std::optional<HttpResponse> Refusal(const HttpHead& head, GateDecision* decision) const;
  std::optional<HttpResponse> CheckKey(const HttpHead& head, GateDecision* decision) const;
  std::optional<HttpResponse> CheckContent(const HttpHead& head, GateDecision* decision) const;
  std::optional<HttpResponse> CheckTimeout(const HttpHead& head, GateDecision* decision) const;
  std::string AllowOrigin(const HttpHead& head) const;

  const HttpServerOptions& options_;
  const HttpHandler& handler_;
  const ApiKeys* keys_;
};

}  // namespace pergola::gateway
