#include "rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <mutex>

namespace pergola::rpc {

void QuietGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
      gpr_set_log_function([](gpr_log_func_args* /*message*/) {});
    }
  });
}

}  // namespace pergola::rpc
