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
// error that names it, and rows and tokens are checked on their way.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grid/call_limit.h"
#include "grid/frame.h"
#include "grid/frame_tls.h"
#include "grid/topology.h"
#include "pergola/status.h"
#include "service/split_service.h"

namespace pergola::grid {

struct RouterOptions {
  // Of a request with all its tries, when it states no time or a longer one.
  std::chrono::milliseconds longest_request = std::chrono::seconds(5);
  // Of one member's answer while there is another one to ask, which half of what time remains is
  // kept for. The last has all the time that is left.
  std::chrono::milliseconds longest_try = std::chrono::seconds(2);
  // Who failed is asked last for so long.
  std::chrono::milliseconds shun = std::chrono::seconds(5);
  // A time-out of less says nothing about the member: the request left too little.
  std::chrono::milliseconds fair_try = std::chrono::milliseconds(100);
  // For members with TLS; null: there are none. Second owner: whoever made it.
  std::shared_ptr<const FrameTls> tls = {};
};

// Thread-safe.
class Router {
 public:
  // `topology` must outlive it.
  explicit Router(Topology& topology, const RouterOptions& options = {})
      : topology_(topology), options_(options) {}

  // A FrameHandler. UNAVAILABLE naming what nobody serves, or why all members failed,
  // within the time that the request states; FAILED_PRECONDITION for another identity. `call`: of
  // whoever the frame is asked for; its errors when nobody waits any more, which is noticed within
  // 50 ms, and members are told of no more time than it has.
  Status Handle(const FrameHeader& request, std::span<const std::byte> payload, std::string* answer,
                const service::SplitCall& call = {});
  // Ends the calls under way and all to come with UNAVAILABLE: whoever waits for a router asks
  // again.
  void Cancel() { cancelled_ = true; }

 private:
  Status Stats(FrameHeader header, std::string* answer) const;
  CallLimit TryLimit(SteadyTime end, size_t others, const service::SplitCall& call) const;
  bool AtFault(SteadyTime start, SteadyTime limit, SteadyTime end) const;
  Status Forward(FrameHeader request, std::span<const std::byte> payload, Member& member,
                 const CallLimit& limit, std::string* answer);

  Topology& topology_;
  const RouterOptions options_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace pergola::grid
