#include "grid/gap_leases.h"

#include <algorithm>

namespace pergola::grid {

bool GapLeases::TakenByOther(const std::string& spare, const Gap& gap) const {
  return std::any_of(spares_.begin(), spares_.end(), [&](const auto& entry) {
    return entry.first != spare && entry.second.gap && entry.second.gap->Meets(gap);
  });
}

Result<std::optional<Gap>> GapLeases::Take(const std::string& name, std::span<const Gap> gaps,
                                           SteadyTime now) {
  std::erase_if(spares_, [&](const auto& entry) { return now - entry.second.heard > kLease; });
  if (!spares_.contains(name) && spares_.size() >= kMostSpares) {
    return ResourceExhaustedError("the grid has " + std::to_string(spares_.size()) +
                                  " spares, which is its limit");
  }
  Spare& spare = spares_[name];
  spare.heard = now;
  const auto still_missing = [&](const Gap& gap) {
    return std::any_of(gaps.begin(), gaps.end(), [&](const Gap& each) { return each.Meets(gap); });
  };
  if (spare.gap && still_missing(*spare.gap)) return spare.gap;
  spare.gap.reset();
  if (now < spare.resting_until) return spare.gap;
  for (const Gap& gap : gaps) {
    if (TakenByOther(name, gap)) continue;
    spare.gap = gap;
    break;
  }
  return spare.gap;
}

void GapLeases::Fail(const std::string& name, SteadyTime now) {
  const auto found = spares_.find(name);
  if (found == spares_.end()) return;
  found->second.gap.reset();
  found->second.resting_until = now + kRest;
}

size_t GapLeases::size(SteadyTime now) const {
  return static_cast<size_t>(std::count_if(spares_.begin(), spares_.end(), [&](const auto& entry) {
    return now - entry.second.heard <= kLease;
  }));
}

}  // namespace pergola::grid
