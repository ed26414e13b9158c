// Who of the spares is taking which missing part, so that no two take the same.
//
//   GapLeases leases;
//   std::optional<Gap> gap = leases.Take("spare-7", gaps, now);   // asked again: the same
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "grid/call_limit.h"
#include "pergola/status.h"

namespace pergola::grid {

// The table with the projection, or a run of feed-forward layers.
struct Gap {
  bool embed = false;
  int64_t first = 0;
  int64_t last = -1;  // inclusive

  bool Meets(const Gap& other) const {
    return embed == other.embed && (embed || (first <= other.last && other.first <= last));
  }
  friend bool operator==(const Gap&, const Gap&) = default;
};

// Thread-compatible.
class GapLeases {
 public:
  static constexpr std::chrono::seconds kLease{10};  // a spare asks about twice a second
  static constexpr std::chrono::seconds kRest{3};    // of one that failed, before it is asked again
  static constexpr size_t kMostSpares = 4096;

  // The spare's gap: the one that it has if it is still there, else the first of `gaps` that nobody
  // else has. RESOURCE_EXHAUSTED: too many spares.
  Result<std::optional<Gap>> Take(const std::string& spare, std::span<const Gap> gaps,
                                  SteadyTime now);
  // It could not fill its gap: somebody else may.
  void Fail(const std::string& spare, SteadyTime now);
  void Remove(const std::string& spare) { spares_.erase(spare); }
  // Spares that ask.
  size_t size(SteadyTime now) const;

 private:
  struct Spare {
    std::optional<Gap> gap;
    SteadyTime heard;
    SteadyTime resting_until = SteadyTime::min();
  };
  bool TakenByOther(const std::string& spare, const Gap& gap) const;

  std::map<std::string, Spare, std::less<>> spares_;
};

}  // namespace pergola::grid
