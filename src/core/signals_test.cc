#include "core/signals.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <thread>

namespace pergola {
namespace {

// In a thread of its own, so that the signals stay unblocked in the test's main thread.
TEST(SignalWaiterTest, TellsStopFromReload) {
  std::thread waiter([] {
    SignalWaiter signals;
    pthread_kill(pthread_self(), SIGHUP);
    EXPECT_EQ(signals.Wait(), Signal::kReload);
    pthread_kill(pthread_self(), SIGTERM);
    EXPECT_EQ(signals.Wait(), Signal::kStop);
  });
  waiter.join();
}

}  // namespace
}  // namespace pergola
