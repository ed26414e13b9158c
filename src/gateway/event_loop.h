// An io_context and the two threads that take turns to run it, one at a time.
//
//   EventLoop loop(std::move(alarm));
//   loop.Start();
//   ... in a handler of the loop:
//   if (loop.CanLend()) loop.Lend([] { ComputeForLong(); });
//
// Work that takes long needs a thread of its own, and a hand-over to it and back may cost more than
// the work (each 16 us on a small virtual machine). So the thread that runs the loop does it
// itself, and the other one is woken only if that takes longer than `kPatience`: then it goes on
// with the loop, and the first takes its place when it is done. What comes meanwhile waits that
// long at most.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "core/alarm.h"

namespace boost::asio {
class io_context;
}

namespace pergola::gateway {

// Handlers never run at the same time, and each sees what those before it did: for them the two are
// one thread.
class EventLoop {
 public:
  // A timer that is due before the system's next tick (every 4 ms) costs 16 us as well.
  static constexpr std::chrono::milliseconds kPatience{5};

  explicit EventLoop(std::unique_ptr<Alarm> alarm);
  ~EventLoop();  // after Join, or if it was never started

  boost::asio::io_context& io();

  void Start();
  // Returns when the io_context has run out of work and what was lent to is done.
  void Join();

  // For handlers of the loop: whether the other thread is free to go on with it.
  bool CanLend();
  // For handlers, after CanLend: `work` runs on this thread as soon as the handler has returned. It
  // must not throw; outside of the loop, it reaches what belongs there by posting to it.
  void Lend(std::function<void()> work);

 private:
  struct Threads;

  bool AwaitTurn();
  void Lead();

  const std::unique_ptr<Alarm> alarm_;  // of the thread that does not run the loop
  std::function<void()> lent_to_;       // of the one that does

  std::mutex mutex_;          // guards the next three
  bool leaderless_ = true;    // nobody runs the loop
  bool other_waits_ = false;  // for its turn
  bool over_ = false;

  const std::unique_ptr<Threads> threads_;  // last: they use what stands above
};

}  // namespace pergola::gateway
