#include "gateway/route_check.h"

#include <algorithm>

#include "gateway/route_table.h"

namespace pergola::gateway {

HttpHandler::RouteCheck CheckRoute(std::string_view method, std::string_view path,
                                   const OpenPages& open) {
  HttpHandler::RouteCheck check;
  check.allow = AllowedMethods(path);
  check.path_known = !check.allow.empty();
  const Route* route = FindRoute(method, path);
  check.method_allowed = route != nullptr;
  if (check.path_known) check.route = PatternOf(path);
  check.takes_body = route != nullptr && route->takes_body();
  check.form_content_type_ok = path.starts_with("/api/");
  const bool keyless = path == "/healthz" || path == "/readyz" || path == "/health" ||
                       (open.metrics && path == "/metrics") ||
                       (open.docs && (path == "/docs" || path == "/openapi.json"));
  check.needs_auth = !keyless;
  return check;
}

HttpResponse RenderRouteError(std::string_view path, int status, std::string_view message) {
  return ErrorResponse(EnvelopeOf(path), status, message);
}

HttpHandler::RouteCheck CheckPage(std::string_view method, std::string_view path,
                                  std::span<const std::string_view> pages) {
  HttpHandler::RouteCheck check;
  check.path_known = std::find(pages.begin(), pages.end(), path) != pages.end();
  if (!check.path_known) return check;
  check.allow = "GET, HEAD";
  check.method_allowed = method == "GET" || method == "HEAD";
  check.route = path;
  return check;
}

HttpResponse ErrorResponse(Envelope envelope, int status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = RenderErrorBody(envelope, {status, message, "", ""});
  return response;
}

}  // namespace pergola::gateway
