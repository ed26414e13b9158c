// /healthz, /readyz and /metrics alone, for processes whose work is not HTTP: `pergola server`.
//
//   auto pages = std::make_shared<StatusPages>(metrics, [&] { return grpc->serving(); });
//   PERGOLA_ASSIGN_OR_RETURN(auto http, HttpServer::Start(options, pages));
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "gateway/http_types.h"
#include "gateway/metrics.h"

namespace pergola::gateway {

// Thread-safe. No keys: for people and probes on a private network.
class StatusPages : public HttpHandler {
 public:
  // `ready` must be quick and safe from any thread. Second owner of `metrics`: who counts in it.
  StatusPages(std::shared_ptr<Metrics> metrics, std::function<bool()> ready);

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

 private:
  const std::shared_ptr<Metrics> metrics_;
  const std::function<bool()> ready_;
};

}  // namespace pergola::gateway
