#include "gateway/status_pages.h"

#include <utility>

#include "gateway/failure.h"

namespace pergola::gateway {

StatusPages::StatusPages(std::shared_ptr<Metrics> metrics, std::function<bool()> ready)
    : metrics_(std::move(metrics)), ready_(std::move(ready)) {}

HttpHandler::RouteCheck StatusPages::Check(std::string_view method, std::string_view path) const {
  RouteCheck check;
  check.path_known = path == "/healthz" || path == "/readyz" || path == "/metrics";
  if (!check.path_known) return check;
  check.allow = "GET, HEAD";
  check.method_allowed = method == "GET" || method == "HEAD";
  check.needs_auth = false;
  check.route = path;
  return check;
}

HttpResponse StatusPages::RenderError(std::string_view /*path*/, int status,
                                      std::string_view message) const {
  HttpResponse response;
  response.status = status;
  response.body = RenderErrorBody(
      Envelope::kPlain, {.http_status = status, .message = message, .param = "", .code = ""});
  return response;
}

void StatusPages::Handle(HttpRequest request, HttpRespond respond) {
  HttpResponse response;
  if (request.path == "/metrics") {
    response = metrics_->Response();
  } else if (request.path == "/healthz" || ready_()) {
    response.body = "{\"status\":\"ok\"}";
  } else {
    response = RenderError(request.path, 503, "not ready: a model does not answer");
  }
  respond(std::move(response));
}

}  // namespace pergola::gateway
