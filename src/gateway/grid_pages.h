// What a router answers over HTTP: /healthz, /readyz and /v1/grid, the last as JSON or as a page
// that keeps itself up to date; frames as bodies of POST /v1/ffn; and the routes of a whole model.
//
//   auto pages = std::make_shared<GridPages>(topology, options);
//   PERGOLA_ASSIGN_OR_RETURN(auto http, HttpServer::Start(options, pages));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http_types.h"
#include "gateway/work_pool.h"
#include "pergola/status.h"
#include "service/grid_registry.h"
#include "service/split_service.h"

namespace pergola::gateway {

inline constexpr std::string_view kFrameMediaType = "application/x-pergola-frame";

// Callbacks are safe from any thread, and quick but for `answer_frame`.
struct GridPagesOptions {
  std::function<std::string()> missing;  // what nobody serves, empty when nothing
  std::function<bool()> has_model;       // a server has joined, so that sizes are known
  // One frame, header and payload; writes the frame that answers it over what `answer` holds.
  std::function<Status(std::string_view frame, const service::SplitCall& call, std::string* answer)>
      answer_frame;
  // Routes of the model (SplitRoutes): asked once there is one. Second owner: whoever made it.
  std::shared_ptr<HttpHandler> model_routes;
};

// Thread-safe. What is missing for a request is an error 503 that names it.
class GridPages : public HttpHandler {
 public:
  // `registry` must outlive it.
  GridPages(const service::GridRegistry& registry, GridPagesOptions options);

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

 private:
  HttpResponse Grid(const HttpRequest& request) const;
  HttpResponse Unavailable(std::string_view path) const;
  void AnswerFrame(HttpRequest request, HttpRespond respond);

  const service::GridRegistry& registry_;
  const GridPagesOptions options_;
  WorkPool pool_;  // for frames
};

}  // namespace pergola::gateway
