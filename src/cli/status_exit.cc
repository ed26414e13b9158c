#include "cli/status_exit.h"

#include <cstdio>

namespace pergola::cli {

ExitCode ExitCodeFor(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kUnavailable:
    case StatusCode::kNotFound:
    case StatusCode::kUnauthenticated:
    case StatusCode::kFailedPrecondition:
      return kExitUnavailable;
    default:
      return kExitFailure;
  }
}

int Fail(const Status& status) {
  std::fprintf(stderr, "pergola: %s\n", status.message().c_str());
  return ExitCodeFor(status.code());
}

}  // namespace pergola::cli
