#include "gateway/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace pergola::gateway {
namespace {

namespace asio = boost::asio;

class EventLoopTest : public ::testing::Test {
 protected:
  EventLoopTest() {
    auto alarm = Alarm::Make();
    EXPECT_TRUE(alarm.ok()) << alarm.status().ToString();
    loop_ = std::make_unique<EventLoop>(std::move(*alarm));
    loop_->Start();
  }
  ~EventLoopTest() override { loop_->Join(); }

  // Runs `work` as a handler of the loop and waits for its end.
  template <typename Work>
  void Call(Work work) {
    std::promise<void> done;
    asio::post(loop_->io(), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // From outside of the loop, in a handler that comes after those that are ready.
  void AwaitSpare() {
    bool spare = false;
    while (!spare) Call([&] { spare = loop_->CanLend(); });
  }

  std::unique_ptr<EventLoop> loop_;
};

TEST_F(EventLoopTest, WorkRunsOnTheThreadOfItsHandlerOnceThatHasReturned) {
  AwaitSpare();
  std::thread::id handler;
  std::promise<std::thread::id> worker;
  std::atomic<bool> returned = false;
  Call([&] {
    handler = std::this_thread::get_id();
    loop_->Lend([&] {
      EXPECT_TRUE(returned);
      worker.set_value(std::this_thread::get_id());
    });
    returned = true;
  });
  EXPECT_EQ(worker.get_future().get(), handler);
}

TEST_F(EventLoopTest, TheLoopGoesOnWhileWorkTakesLong) {
  AwaitSpare();
  std::promise<void> end;
  std::promise<void> ended;
  Call([&] {
    loop_->Lend([&] {
      end.get_future().wait();
      ended.set_value();
    });
  });
  Call([&] { EXPECT_FALSE(loop_->CanLend()) << "both threads are taken"; });
  end.set_value();
  ended.get_future().wait();
  AwaitSpare();  // the first has taken the other's place
}

TEST_F(EventLoopTest, JoinWaitsForTheEndOfWork) {
  AwaitSpare();
  std::promise<void> end;
  bool ended = false;
  Call([&] {
    loop_->Lend([&] {
      end.get_future().wait();
      ended = true;
    });
  });
  std::thread joiner([&] { loop_->Join(); });
  end.set_value();
  joiner.join();
  EXPECT_TRUE(ended);
}

TEST_F(EventLoopTest, HandlersNeverOverlapWhoeverRunsThem) {
  int64_t handled = 0;  // of the handlers
  std::atomic<int> lent = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        std::promise<void> done;
        asio::post(loop_->io(), [&] {
          ++handled;
          // Every sixteenth for longer than the loop waits.
          const auto length = turn % 16 == 0 ? std::chrono::microseconds(2 * EventLoop::kPatience)
                                             : std::chrono::microseconds(20);
          const auto work = [&, length] {
            const auto end = std::chrono::steady_clock::now() + length;
            while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
            asio::post(loop_->io(), [&] {
              ++handled;
              done.set_value();
            });
          };
          if (!loop_->CanLend()) return work();
          ++lent;
          loop_->Lend(work);
        });
        done.get_future().wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Call([&] { EXPECT_EQ(handled, 2 * 2 * 200); });
  EXPECT_GT(lent, 0);
}

TEST(EventLoopStartTest, EndsWithoutHavingStarted) {
  auto alarm = Alarm::Make();
  ASSERT_TRUE(alarm.ok());
  EventLoop loop(std::move(*alarm));
  loop.Join();
}

}  // namespace
}  // namespace pergola::gateway
