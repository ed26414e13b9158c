// What a router tells over HTTP: /healthz, /readyz and /v1/grid, the last as JSON or as a page that
// keeps itself up to date.
//
//   auto pages = std::make_shared<GridPages>(topology, [&] { return topology.Missing(); });
//   PERGOLA_ASSIGN_OR_RETURN(auto http, HttpServer::Start(options, pages));
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gateway/http_types.h"
#include "service/grid_registry.h"

namespace pergola::gateway {

// Thread-safe.
class GridPages : public HttpHandler {
 public:
  // `missing`: what nobody serves, empty when nothing: quick and safe from any thread. `registry`
  // must outlive it.
  GridPages(const service::GridRegistry& registry, std::function<std::string()> missing);

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

 private:
  const service::GridRegistry& registry_;
  const std::function<std::string()> missing_;
};

}  // namespace pergola::gateway
