#include "gateway/live_routes.h"

#include <algorithm>
#include <utility>

namespace pergola::gateway {

LiveRoutes::LiveRoutes(Options options) : options_(std::move(options)) {}

LiveRoutes::~LiveRoutes() = default;

void LiveRoutes::Install(std::unique_ptr<Routes> routes) {
  std::vector<std::shared_ptr<Routes>> done;  // ended without the mutex
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_ != nullptr) retired_.push_back(std::move(current_));
  current_ = std::move(routes);
  const auto in_use = [](const std::shared_ptr<Routes>& each) {
    return each.use_count() > 1 || !each->idle();
  };
  const auto end = std::stable_partition(retired_.begin(), retired_.end(), in_use);
  done.assign(std::make_move_iterator(end), std::make_move_iterator(retired_.end()));
  retired_.erase(end, retired_.end());
}

void LiveRoutes::SetReason(std::string reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reason_ = std::move(reason);
}

HttpHandler::RouteCheck LiveRoutes::Check(std::string_view method, std::string_view path) const {
  return CheckRoute(method, path, options_.open);
}

HttpResponse LiveRoutes::RenderError(std::string_view path, int status,
                                     std::string_view message) const {
  return RenderRouteError(path, status, message);
}

void LiveRoutes::Handle(HttpRequest request, HttpRespond respond) {
  std::shared_ptr<Routes> routes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    routes = current_;
  }
  if (routes == nullptr) return AnswerAlone(request, respond);
  routes->Handle(std::move(request), std::move(respond));
}

void LiveRoutes::AnswerAlone(const HttpRequest& request, const HttpRespond& respond) const {
  HttpResponse response;
  if (request.path == "/healthz") {
    response.body = "{\"status\":\"ok\"}";
  } else if (request.path == "/metrics") {
    response = options_.metrics->Response();
  } else {
    std::string message = "not ready: ";
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      message += reason_;
    }
    response = RenderError(request.path, 503, message);
    response.headers.push_back({"retry-after", "1"});
  }
  respond(std::move(response));
}

}  // namespace pergola::gateway
