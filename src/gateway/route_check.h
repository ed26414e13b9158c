// What the route table says of a path before anything is known of the models behind it.
#pragma once

#include <span>
#include <string_view>

#include "gateway/failure.h"
#include "gateway/http_types.h"

namespace pergola::gateway {

// Pages that need no key though keys are needed.
struct OpenPages {
  bool metrics = false;  // /metrics
  bool docs = false;     // /docs and /openapi.json
};

// For HttpHandler::Check and HttpHandler::RenderError.
HttpHandler::RouteCheck CheckRoute(std::string_view method, std::string_view path,
                                   const OpenPages& open);
HttpResponse RenderRouteError(std::string_view path, int status, std::string_view message);

// The same where there are only pages that are read, each of which is its own route.
HttpHandler::RouteCheck CheckPage(std::string_view method, std::string_view path,
                                  std::span<const std::string_view> pages);
HttpResponse ErrorResponse(Envelope envelope, int status, std::string_view message);

}  // namespace pergola::gateway
