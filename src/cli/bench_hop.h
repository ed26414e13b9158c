// What a hop from a gateway to its server costs besides the work: calls that compute nothing, over
// gRPC, one at a time.
#pragma once

#include <string>

#include "pergola/status.h"

namespace pergola::cli {

struct HopTimes {  // microseconds
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

// Blocks until `calls` (at least one) have been answered after some to warm up. Each goes from this
// thread to the server and its answer back to this thread, as a gateway's network thread has it.
// UNAVAILABLE: there is no server at `backend`, host:port, or it went away.
Result<HopTimes> BenchHop(const std::string& backend, int calls);

}  // namespace pergola::cli
