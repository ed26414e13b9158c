// Process signals as values: blocked in every thread, waited for in one.
//
//   SignalWaiter signals;              // before any thread starts
//   while (signals.Wait() == Signal::kReload) Reload();
#pragma once

namespace pergola {

enum class Signal {
  kStop,    // SIGTERM, SIGINT
  kReload,  // SIGHUP
};

// One per process. Construction blocks the signals in the calling thread and in all threads it
// starts afterwards, and ignores SIGPIPE.
class SignalWaiter {
 public:
  SignalWaiter();
  // Blocks until one arrives. Only one thread.
  Signal Wait();
};

}  // namespace pergola
