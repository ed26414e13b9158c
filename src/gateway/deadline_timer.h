// Calls back when a deadline passes: one thread for all requests.
//
//   const auto ticket = timer.Add(deadline, [exchange] { exchange->Fail(...); });
//   timer.Remove(ticket);
//
// Made for deadlines that are nearly always removed in time: adding one later than the thread's
// next waking does not wake the thread (a wake-up costs more than a small request).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "service/inference_service.h"

namespace pergola::gateway {

// Thread-safe. The destructor drops what has not fired.
class DeadlineTimer {
 public:
  using TimePoint = service::Clock::time_point;
  using Ticket = std::pair<TimePoint, uint64_t>;

  DeadlineTimer();
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  // `fire` runs on the timer's thread, once, at or soon after `when`; it must not block or throw.
  Ticket Add(TimePoint when, std::function<void()> fire);
  // Afterwards `fire` may still be running, but does not start.
  void Remove(const Ticket& ticket);

 private:
  void Work();

  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable changed_;
  std::map<Ticket, std::function<void()>> waiting_;
  uint64_t next_number_ = 0;
  TimePoint wakes_at_ = TimePoint::max();
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pergola::gateway
