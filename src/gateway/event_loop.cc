#include "gateway/event_loop.h"

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>
#include <utility>

#include "core/check.h"

namespace pergola::gateway {

struct EventLoop::Threads {
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep{io.get_executor()};
  std::array<std::thread, 2> threads;
};

EventLoop::EventLoop(std::unique_ptr<Alarm> alarm)
    : alarm_(std::move(alarm)), threads_(std::make_unique<Threads>()) {}

EventLoop::~EventLoop() = default;

boost::asio::io_context& EventLoop::io() { return threads_->io; }

void EventLoop::Start() {
  for (std::thread& thread : threads_->threads) {
    thread = std::thread([this] {
      while (AwaitTurn()) Lead();
    });
  }
}

void EventLoop::Join() {
  threads_->keep.reset();
  for (std::thread& thread : threads_->threads) {
    if (thread.joinable()) thread.join();
  }
}

bool EventLoop::CanLend() {
  const std::lock_guard lock(mutex_);
  return other_waits_;
}

void EventLoop::Lend(std::function<void()> work) {
  PERGOLA_DCHECK(lent_to_ == nullptr);
  lent_to_ = std::move(work);
  threads_->io.stop();  // run() returns after this handler; what else is ready stays so
}

// False: there is no more to do.
bool EventLoop::AwaitTurn() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (over_) return false;
      other_waits_ = !leaderless_;
      if (std::exchange(leaderless_, false)) return true;
    }
    alarm_->Wait();
  }
}

// Runs the loop until the other thread has taken it over, or until it is over.
void EventLoop::Lead() {
  while (true) {
    threads_->io.restart();
    threads_->io.run();
    const std::function<void()> work = std::exchange(lent_to_, nullptr);
    if (work == nullptr) break;
    {
      const std::lock_guard lock(mutex_);
      leaderless_ = true;
    }
    alarm_->Set(kPatience);  // never taken back: one that comes for nothing holds up nobody
    work();
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(leaderless_, false)) return;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  alarm_->Set({});
}

}  // namespace pergola::gateway
