// Several handlers on one port: a request is the first one's that knows its path.
//
//   HandlerChain chain({routes, share});
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/http_types.h"

namespace pergola::gateway {

// Thread-safe.
class HandlerChain : public HttpHandler {
 public:
  // At least one; the first renders errors of paths that nobody knows. Second owner of each:
  // whoever made it.
  explicit HandlerChain(std::vector<std::shared_ptr<HttpHandler>> handlers)
      : handlers_(std::move(handlers)) {}

  RouteCheck Check(std::string_view method, std::string_view path) const override {
    return Of(path).Check(method, path);
  }
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override {
    return Of(path).RenderError(path, status, message);
  }
  void Handle(HttpRequest request, HttpRespond respond) override {
    HttpHandler& handler = Of(request.path);
    handler.Handle(std::move(request), std::move(respond));
  }

 private:
  HttpHandler& Of(std::string_view path) const {
    for (const auto& handler : handlers_) {
      if (handler->Check("GET", path).path_known) return *handler;
    }
    return *handlers_.front();
  }

  const std::vector<std::shared_ptr<HttpHandler>> handlers_;
};

}  // namespace pergola::gateway
