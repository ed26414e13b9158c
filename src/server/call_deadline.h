// Deadlines of calls on the steady clock.
#pragma once

#include <chrono>

#include "service/inference_service.h"

namespace grpc {
class CallbackServerContext;
}  // namespace grpc

namespace pergola::server {

// When the client gives up; time_point::max() if never.
service::Clock::time_point DeadlineOf(const grpc::CallbackServerContext& context);

}  // namespace pergola::server
