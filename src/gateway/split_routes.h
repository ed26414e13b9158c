// The routes of an embed part (docs/split.md): rows of the table, logits, tokens, stats; JSON, or
// application/x-larql-ffn on the binary ones.
//
//   auto routes = std::make_shared<SplitRoutes>(part);
//   PERGOLA_ASSIGN_OR_RETURN(auto server, HttpServer::Start(options, routes));
#pragma once

#include <memory>
#include <string_view>

#include "gateway/http_types.h"
#include "gateway/work_pool.h"
#include "service/split_service.h"

namespace pergola::gateway {

inline constexpr std::string_view kSplitMediaType = "application/x-larql-ffn";

// Thread-safe. Everything but /healthz is answered on threads of its own.
class SplitRoutes : public HttpHandler {
 public:
  // `private_answers`: keys are set, so no cache between may keep an answer.
  // Second owner of the service: whoever answers its frames.
  SplitRoutes(std::shared_ptr<service::SplitService> service, bool private_answers);

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

 private:
  std::shared_ptr<service::SplitService> service_;
  bool private_answers_;
  WorkPool pool_;
};

}  // namespace pergola::gateway
