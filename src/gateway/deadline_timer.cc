#include "gateway/deadline_timer.h"

namespace pergola::gateway {

DeadlineTimer::DeadlineTimer() : thread_([this] { Work(); }) {}

DeadlineTimer::~DeadlineTimer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

DeadlineTimer::Ticket DeadlineTimer::Add(TimePoint when, std::function<void()> fire) {
  std::unique_lock lock(mutex_);
  const Ticket ticket{when, next_number_++};
  waiting_.emplace(ticket, std::move(fire));
  const bool wake = when < wakes_at_;
  if (wake) wakes_at_ = when;
  lock.unlock();
  if (wake) changed_.notify_one();
  return ticket;
}

void DeadlineTimer::Remove(const Ticket& ticket) {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  dropped = std::move(found->second);
  waiting_.erase(found);
}

void DeadlineTimer::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      wakes_at_ = TimePoint::max();
      changed_.wait(lock);
      continue;
    }
    const auto first = waiting_.begin();
    if (first->first.first > service::Clock::now()) {
      wakes_at_ = first->first.first;
      changed_.wait_until(lock, wakes_at_);
      continue;
    }
    std::function<void()> fire = std::move(first->second);
    waiting_.erase(first);
    lock.unlock();
    fire();
    fire = nullptr;
    lock.lock();
  }
}

}  // namespace pergola::gateway
