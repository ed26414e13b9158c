// pergola.v1.EmbeddingService (proto/pergola/v1/embedding.proto) over InferenceServices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/health_monitor.h"
#include "server/infer_log.h"
#include "server/served_model.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace pergola::server {

// Of all calls; shared by the services.
struct CallCounters {
  std::atomic<uint64_t> requests = 0;   // begun
  std::atomic<uint64_t> failures = 0;   // answered with an error
  std::atomic<uint64_t> cancelled = 0;  // given up by the client
  std::atomic<int64_t> open = 0;
};

// What a gRPC service works with. All must outlive it.
struct ServiceContext {
  const std::vector<ServedModel>* models = nullptr;
  HealthMonitor* health = nullptr;  // told of every success; may be null
  CallCounters* counters = nullptr;
  int max_open_per_stream = 256;
  const InferObserver* observer = nullptr;  // null or empty: nobody asks
};

// Ends the streams of a service once what they have open is answered. Thread-safe.
class StreamDrain {
 public:
  virtual ~StreamDrain() = default;
  virtual void DrainStreams() = 0;
};

struct EmbeddingService {
  std::unique_ptr<grpc::Service> service;
  StreamDrain* drain = nullptr;  // lives with `service`
};
EmbeddingService MakeEmbeddingService(const ServiceContext& context);

}  // namespace pergola::server
