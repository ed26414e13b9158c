// Who serves which part of one model: the members of a grid, as the router knows them.
//
//   Topology topology;
//   PERGOLA_ASSIGN_OR_RETURN(uint64_t id, topology.Add(facts));      // a server joins
//   const auto members = topology.members();                         // stays as it is
//   MemberPtr member = topology.Pick(FrameKind::kFfn, 3, tried);     // null: nobody else
//
// The first member says which model it is; others must be of the same identity and arithmetic, also
// when all before them have gone: a client may be in the middle of a text.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "grid/call_limit.h"
#include "grid/frame.h"
#include "grid/gap_leases.h"
#include "grid/remote_part.h"
#include "pergola/status.h"
#include "service/grid_registry.h"

namespace pergola::grid {

// Thread-safe.
struct Member {
  Member(uint64_t number, service::GridMemberFacts said) : id(number), facts(std::move(said)) {}

  const uint64_t id;
  const service::GridMemberFacts facts;
  // As the router counts them.
  std::atomic<int64_t> in_flight = 0;
  std::atomic<uint64_t> calls = 0;
  std::atomic<uint64_t> failures = 0;
  // Until then it is only asked when nobody else can be: it failed just now.
  std::atomic<SteadyTime> shunned_until = SteadyTime::min();

  std::mutex mutex;  // guards what follows
  service::GridLoad load;
  SteadyTime last_beat;
  std::vector<std::unique_ptr<RemotePart>> idle;  // connections that nobody uses
};
// Owners: the topology's snapshots, and calls under way.
using MemberPtr = std::shared_ptr<Member>;
using MemberList = std::vector<MemberPtr>;

struct TopologyOptions {
  size_t max_members = 4096;
  std::chrono::milliseconds silence = std::chrono::seconds(3);  // longer without a beat: evicted
  bool needs_tls = false;  // a member whose URL is without TLS is refused
};

// Thread-safe. Snapshots are immutable: a change makes another.
class Topology : public service::GridRegistry {
 public:
  explicit Topology(const TopologyOptions& options = {}) : options_(options) {}

  // A member with the same URL is replaced: its server was started again.
  Result<uint64_t> Add(const service::GridMemberFacts& facts) override;
  Status Beat(uint64_t id, const service::GridLoad& load) override;
  void Remove(uint64_t id) override;
  Result<std::optional<service::GridAssignment>> Assign(const service::GridSpare& spare) override;
  // {"model","identity","numeric_class","num_layers","complete","missing","spares",
  // "frames_refused","members":[...]}
  std::string GridJson() const override;

  // Somebody was refused who asked for frames: counted in GridJson.
  void CountRefused() { ++refused_; }

  // Removes who has been silent too long at `now`; how many.
  size_t Evict(SteadyTime now);

  std::shared_ptr<const MemberList> members() const;
  // What the first member stated, of which what is of the whole model holds for all to come. Null:
  // nobody has joined yet.
  std::shared_ptr<const service::GridMemberFacts> model() const;
  // A member that answers `kind` (of kFfn: in that layer) and is not among `tried`: the one with
  // fewer calls of two drawn among those that are not shunned. Null: there is none. `others`: how
  // many more there are.
  MemberPtr Pick(FrameKind kind, int64_t layer, std::span<const MemberPtr> tried,
                 size_t* others = nullptr) const;
  // What nobody serves, "the embedding table, feed-forward layers 2, 3"; empty: nothing is missing.
  std::string Missing() const;

 private:
  Status CheckSame(const service::GridMemberFacts& facts) const;

  const TopologyOptions options_;
  mutable std::mutex mutex_;  // guards the next four
  std::shared_ptr<const MemberList> members_ = std::make_shared<MemberList>();
  std::shared_ptr<const service::GridMemberFacts> model_;
  uint64_t next_id_ = 1;
  GapLeases leases_;
  mutable std::atomic<uint64_t> draws_ = 0;
  std::atomic<uint64_t> refused_ = 0;
};

}  // namespace pergola::grid
