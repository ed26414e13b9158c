// What is known of one call to pergola.v1.EmbeddingService when it has been answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "pergola/status.h"
#include "service/inference_service.h"

namespace pergola::server {

struct InferLog {
  service::TraceContext caller;  // the span that asked; not valid: none was told
  service::Clock::time_point begin;
  std::chrono::nanoseconds length{0};
  std::chrono::nanoseconds queue_time{0};
  std::chrono::nanoseconds inference_time{0};
  int64_t sequences = 0;
  int64_t tokens = 0;
  StatusCode code = StatusCode::kOk;
};

// Called on a thread that computes: must not block.
using InferObserver = std::function<void(const InferLog&)>;

}  // namespace pergola::server
