#include "gateway/status_pages.h"

#include <utility>

#include "gateway/route_check.h"

namespace pergola::gateway {

StatusPages::StatusPages(std::shared_ptr<Metrics> metrics, std::function<bool()> ready)
    : metrics_(std::move(metrics)), ready_(std::move(ready)) {}

HttpHandler::RouteCheck StatusPages::Check(std::string_view method, std::string_view path) const {
  constexpr std::string_view kPages[] = {"/healthz", "/readyz", "/metrics"};
  RouteCheck check = CheckPage(method, path, kPages);
  check.needs_auth = false;
  return check;
}

HttpResponse StatusPages::RenderError(std::string_view /*path*/, int status,
                                      std::string_view message) const {
  return ErrorResponse(Envelope::kPlain, status, message);
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
