// In which order sequences of several tenants wait: start-time fair queueing by tokens.
//
//   work->turn = order.Enter(tenant, tokens);   // the queue is kept sorted by turn
//   order.Serve(work->turn);                    // when it leaves the queue for the engine
//
// A sequence's turn is the token count at which it would start if the engine served all tenants in
// parallel, equally fast: a tenant with a long backlog stands behind itself, not in front of
// others. With one tenant the order is that of arrival. Who comes newly, or again after a pause,
// starts level with what is being served, never ahead for having been idle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace pergola::scheduler {

// Thread-compatible.
class FairOrder {
 public:
  using Turn = uint64_t;

  // `tokens` >= 0. Turns of one tenant never fall.
  Turn Enter(const std::string& tenant, int64_t tokens);
  void Serve(Turn turn);

  // Tenants remembered: those that are ahead of what is being served.
  size_t tenants() const { return next_.size(); }

 private:
  void ForgetIdle();

  Turn now_ = 0;  // the largest turn served
  // Where the next sequence of a tenant stands; a tenant that is not here stands at now_.
  std::unordered_map<std::string, Turn> next_;
  size_t forget_above_ = 64;
};

}  // namespace pergola::scheduler
