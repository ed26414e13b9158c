#include "scheduler/fair_order.h"

#include <algorithm>

namespace pergola::scheduler {

FairOrder::Turn FairOrder::Enter(const std::string& tenant, int64_t tokens) {
  Turn& next = next_.try_emplace(tenant, now_).first->second;
  const Turn turn = std::max(next, now_);
  next = turn + static_cast<Turn>(tokens);
  if (next_.size() > forget_above_) ForgetIdle();
  return turn;
}

void FairOrder::Serve(Turn turn) { now_ = std::max(now_, turn); }

void FairOrder::ForgetIdle() {
  std::erase_if(next_, [this](const auto& tenant) { return tenant.second <= now_; });
  forget_above_ = std::max<size_t>(64, 2 * next_.size());  // amortised: each is looked at rarely
}

}  // namespace pergola::scheduler
