// The bodies of the routes that only tell: models, limits, version, start page.
#pragma once

#include <string>

#include "gateway/routes.h"

namespace pergola::gateway {

// Each returns a JSON object.
std::string DescribeRoot(const RoutesOptions& options);
std::string DescribeModelList(const RoutesOptions& options);  // GET /v1/models
std::string DescribeModel(const ServedModel& model);          // GET /v1/models/{id}
std::string DescribeTags(const RoutesOptions& options);       // GET /api/tags
std::string DescribeRunning(const RoutesOptions& options);    // GET /api/ps
std::string DescribeShow(const ServedModel& model);           // POST /api/show
std::string DescribeOllamaVersion();                          // GET /api/version
std::string DescribeInfo(const RoutesOptions& options);       // GET /info

}  // namespace pergola::gateway
