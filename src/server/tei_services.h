// The gRPC services of text-embeddings-inference (proto/tei/v1/tei.proto) over the first model that
// is served.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/embedding_service.h"

namespace pergola::server {

struct TeiServices {
  std::vector<std::unique_ptr<grpc::Service>> services;
  // Name of each service for grpc.health.v1, and whether the model can do what it is for.
  std::vector<std::pair<std::string, bool>> abilities;
};

// `context.models` has at least one model, the first of which has a text side.
TeiServices MakeTeiServices(const ServiceContext& context);

}  // namespace pergola::server
