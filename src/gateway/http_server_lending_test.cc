// A request that may hold a network thread: nothing else waits for it.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "gateway/http_server.h"
#include "gateway/testing/server_fixture.h"

namespace pergola::gateway {
namespace {

using testing::Get;
using testing::Post;
using testing::RawClient;

// POST /block holds its thread, where it may, until Answer(); where it may not it says so.
class HttpServerLendingTest : public testing::ServerTest {
 protected:
  // A thread comes back a moment after its answer, and who sends alone has to have for a while.
  void AwaitSpare(RawClient& client) {
    EXPECT_TRUE(Eventually([&](const HttpServerStats&) {
      return client.Ask(Post("/may_block", "{}")).body == "yes";
    }));
  }
  // Returns when the client's request holds a network thread, as the `count`th of all that have.
  // A thread that was spare for one request need not be back for the next, so it asks until it may.
  void Block(RawClient& client, size_t count) {
    EXPECT_TRUE(Eventually([&](const HttpServerStats&) {
      client.Send(Post("/block", "{}"));
      if (handler_->WaitBlocked(count)) return true;
      EXPECT_EQ(client.Read().body, "may not block");
      return false;
    }));
  }
  RawClient Block() {
    RawClient client = Connect();
    Block(client, 1);
    return client;
  }
};

TEST_F(HttpServerLendingTest, OthersAreServedMeanwhile) {
  Start();
  RawClient kept = Connect();
  EXPECT_EQ(kept.Ask(Get("/get")).status, 200);
  RawClient blocked = Block();
  EXPECT_EQ(kept.Ask(Get("/get")).status, 200);
  EXPECT_EQ(Ask(Get("/get")).status, 200);
  EXPECT_EQ(Ask(Post("/echo", "a body")).body, "a body");
  EXPECT_EQ(Ask(Post("/block", "{}")).body, "may not block");
  handler_->Answer(0, "done");
  EXPECT_EQ(blocked.Read().body, "done");
  EXPECT_EQ(blocked.Ask(Get("/get")).status, 200);
}

TEST_F(HttpServerLendingTest, OneAfterTheOtherAsOftenAsTheyLike) {
  Start();
  RawClient client = Connect();
  for (size_t turn = 0; turn < 20; ++turn) {
    Block(client, turn + 1);
    ASSERT_EQ(Ask(Get("/get")).status, 200);
    handler_->Answer(turn, std::to_string(turn));
    ASSERT_EQ(client.Read().body, std::to_string(turn));
  }
}

TEST_F(HttpServerLendingTest, WhoGoesAwayCancels) {
  Start();
  RawClient client = Block();
  client.Close();
  EXPECT_TRUE(Eventually([&](const HttpServerStats&) { return handler_->cancel(0)->cancelled(); }));
  EXPECT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.connections == 0; }));
  handler_->Answer(0, "nobody reads it");
  EXPECT_EQ(Ask(Get("/get")).status, 200);
}

TEST_F(HttpServerLendingTest, TheDeadlineAnswers) {
  options_.request_timeout = std::chrono::milliseconds(50);
  Start();
  RawClient client = Block();
  EXPECT_EQ(client.Read().status, 504);
  EXPECT_TRUE(handler_->cancel(0)->cancelled());
  handler_->Answer(0, "too late");
}

TEST_F(HttpServerLendingTest, AWholeDrainWaitsForIt) {
  Start();
  RawClient idle = Connect();
  EXPECT_EQ(idle.Ask(Get("/get")).status, 200);
  RawClient client = Block();
  auto drained =
      std::async(std::launch::async, [this] { return server_->Drain(std::chrono::seconds(10)); });
  EXPECT_TRUE(idle.WaitClosed());
  handler_->Answer(0, "done");
  EXPECT_EQ(client.Read().body, "done");
  client.Close();
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerLendingTest, TheEndWaitsForItsThread) {
  Start();
  RawClient client = Block();
  std::thread end([this] { server_.reset(); });
  EXPECT_TRUE(client.WaitClosed());
  handler_->Answer(0, "nobody reads it");
  end.join();
}

TEST_F(HttpServerLendingTest, WhereSeveralSendNoneMay) {
  Start();
  RawClient client = Connect();
  AwaitSpare(client);
  EXPECT_EQ(Ask(Post("/may_block", "{}")).body, "no");
  EXPECT_EQ(client.Ask(Post("/may_block", "{}")).body, "no");
  AwaitSpare(client);
}

TEST_F(HttpServerLendingTest, OnlyABodyAloneMay) {
  Start();
  RawClient client = Connect();
  EXPECT_EQ(client.Ask(Get("/may_block")).body, "no");
  RawClient held = Connect();
  held.Send(Post("/hold", "{}"));
  ASSERT_TRUE(handler_->WaitHeld(1));
  EXPECT_EQ(client.Ask(Post("/may_block", "{}")).body, "no");
  handler_->Answer(0, "done");
  EXPECT_EQ(held.Read().body, "done");
  AwaitSpare(client);
}

}  // namespace
}  // namespace pergola::gateway
