#include "core/signals.h"

#include <csignal>

namespace pergola {
namespace {

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

SignalWaiter::SignalWaiter() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

Signal SignalWaiter::Wait() {
  const sigset_t set = Signals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number == SIGHUP ? Signal::kReload : Signal::kStop;
}

}  // namespace pergola
