#include "core/alarm.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/check.h"

namespace pergola {

Result<std::unique_ptr<Alarm>> Alarm::Make() {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (timer < 0) {
    return ResourceExhaustedError("no timer for a thread: " + std::string(std::strerror(errno)));
  }
  return std::unique_ptr<Alarm>(new Alarm(timer));
}

Alarm::~Alarm() { close(timer_); }

void Alarm::Set(std::chrono::nanoseconds from_now) {
  const int64_t left = std::max<int64_t>(from_now.count(), 1);  // 0 would be never
  itimerspec when{};
  when.it_value.tv_sec = left / 1'000'000'000;
  when.it_value.tv_nsec = left % 1'000'000'000;
  PERGOLA_CHECK(timerfd_settime(timer_, 0, &when, nullptr) == 0);
}

void Alarm::Wait() {
  uint64_t times = 0;
  while (read(timer_, &times, sizeof times) < 0 && errno == EINTR) {
  }
}

}  // namespace pergola
