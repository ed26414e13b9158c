// The routes of the moment: none while no model is known yet, others after a reload.
//
//   auto live = std::make_shared<LiveRoutes>(LiveRoutes::Options{metrics, {}});
//   PERGOLA_ASSIGN_OR_RETURN(auto server, HttpServer::Start(options, live));  // listens at once
//   ... a server has told what it serves ...
//   live->Install(std::make_unique<Routes>(std::move(options)));
//
// Before the first Install /healthz and /metrics answer, everything else is 503 with Retry-After
// and the reason. A request is answered by the routes that were installed when it came, also when
// others are installed meanwhile: none is dropped.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gateway/http_types.h"
#include "gateway/metrics.h"
#include "gateway/route_check.h"
#include "gateway/routes.h"

namespace pergola::gateway {

// Thread-safe.
class LiveRoutes : public HttpHandler {
 public:
  struct Options {
    std::shared_ptr<Metrics> metrics;  // second owner: whoever counts in it
    OpenPages open;
  };

  explicit LiveRoutes(Options options);
  // Waits for the requests in work, as Routes does.
  ~LiveRoutes() override;

  // From now on requests go to `routes`. Those that were installed before go once their last
  // request is answered and another Install or the destructor looks.
  void Install(std::unique_ptr<Routes> routes);

  // Why nothing is installed yet, for people: "no server of the model answers".
  void SetReason(std::string reason);

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

 private:
  // Until the first Install.
  void AnswerAlone(const HttpRequest& request, const HttpRespond& respond) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  // Second owners: calls of Handle. `retired_` outlives those calls, so that none of them ends
  // routes on a network thread.
  std::shared_ptr<Routes> current_;
  std::vector<std::shared_ptr<Routes>> retired_;
  std::string reason_ = "the server is starting";
};

}  // namespace pergola::gateway
