#include "server/call_deadline.h"

#include <grpcpp/server_context.h>

namespace pergola::server {

service::Clock::time_point DeadlineOf(const grpc::CallbackServerContext& context) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return service::Clock::time_point::max();
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  constexpr int64_t kLongSeconds = int64_t{1} << 30;
  if (left.tv_sec > kLongSeconds) return service::Clock::time_point::max();
  return service::Clock::now() + std::chrono::seconds(left.tv_sec) +
         std::chrono::nanoseconds(left.tv_nsec);
}

}  // namespace pergola::server
