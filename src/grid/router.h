// Answers the frames of a whole model by asking the members of a grid.
//
//   Topology topology;                       // filled by whoever lets servers join
//   Router router(topology);
//   FrameServer::Start({}, [&](auto& header, auto payload, auto* answer) {
//     return router.Handle(header, payload, answer);
//   });
//
// To its clients it is one server with every part. A call that fails is made again with another
// member that has the part: all calls are idempotent. Nothing is made up: what nobody serves is an
// error that names it, and rows are checked on their way.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grid/frame.h"
#include "grid/topology.h"
#include "pergola/status.h"

namespace pergola::grid {

// Thread-safe.
class Router {
 public:
  // `topology` must outlive it. `timeout`: of one member's answer; less than a client's, so that it
  // has the answer of another member in time.
  explicit Router(Topology& topology, std::chrono::milliseconds timeout = std::chrono::seconds(2))
      : topology_(topology), timeout_(timeout) {}

  // A FrameHandler. UNAVAILABLE naming what nobody serves, or why all members failed;
  // FAILED_PRECONDITION for another identity.
  Status Handle(const FrameHeader& request, std::span<const std::byte> payload,
                std::string* answer);

 private:
  Status Stats(FrameHeader header, std::string* answer) const;
  Status Forward(const FrameHeader& request, std::span<const std::byte> payload, Member& member,
                 std::string* answer);

  Topology& topology_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace pergola::grid
