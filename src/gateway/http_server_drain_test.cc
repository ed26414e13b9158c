// What a drain answers, refuses and closes.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "gateway/http_server.h"
#include "gateway/testing/server_fixture.h"

namespace pergola::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Get;
using testing::Post;
using testing::RawAnswer;
using testing::RawClient;

// A request without the last bytes of its body.
std::string Unfinished() {
  const std::string whole = Post("/echo", "12345");
  return whole.substr(0, whole.size() - 2);
}

// Blocks the network thread at "/get?block", which no handler should.
class BlockingHandler : public testing::FakeHandler {
 public:
  ~BlockingHandler() override { Unblock(); }
  void Handle(HttpRequest request, HttpRespond respond) override {
    if (request.query == "block") {
      std::unique_lock lock(mutex_);
      blocked_ = true;
      changed_.notify_all();
      changed_.wait_for(lock, seconds(10), [this] { return !blocked_; });
    }
    FakeHandler::Handle(std::move(request), std::move(respond));
  }
  bool WaitBlocked() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(10), [this] { return blocked_; });
  }
  void Unblock() {
    const std::lock_guard lock(mutex_);
    blocked_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool blocked_ = false;  // guarded by mutex_
};

class HttpServerDrainTest : public testing::ServerTest {};

TEST_F(HttpServerDrainTest, LetsRequestsInWorkFinish) {
  Start();
  RawClient idle = Connect();
  EXPECT_EQ(idle.Ask(Get("/get")).status, 200);
  RawClient busy = Connect();
  busy.Send(Get("/hold"));
  ASSERT_TRUE(handler_->WaitHeld(1));

  EXPECT_FALSE(server_->Drain(milliseconds(20)));
  EXPECT_TRUE(idle.WaitClosed());
  EXPECT_FALSE(Connect().connected());
  handler_->Answer(0, "done");
  const RawAnswer answer = busy.Read();
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(busy.WaitClosed());
  EXPECT_TRUE(server_->Drain(seconds(10)));
}

TEST_F(HttpServerDrainTest, Answers503ToWhatDoesNotComeWhole) {
  options_.drain_grace = milliseconds(30);
  Start();
  std::vector<RawClient> clients;
  for (const std::string& part :
       {Unfinished(),
        std::string("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123"),
        std::string("GET /ge")}) {
    clients.push_back(Connect());
    clients.back().Send(part);
  }
  ASSERT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.body_bytes_held == 6; }));
  const auto start = service::Clock::now();
  EXPECT_TRUE(server_->Drain(seconds(60)));
  EXPECT_LT(service::Clock::now() - start, seconds(10));
  for (RawClient& client : clients) {
    const RawAnswer answer = client.Read();
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.body.find("the server is stopping"), std::string::npos);
    EXPECT_EQ(answer.header("connection"), "close");
    EXPECT_EQ(answer.header("retry-after"), "1");
    EXPECT_TRUE(client.WaitClosed());
  }
}

TEST_F(HttpServerDrainTest, TakesTheRestOfARequestThatComesSoon) {
  options_.drain_grace = seconds(20);
  Start();
  RawClient body = Connect();
  body.Send(Unfinished());
  RawClient head = Connect();
  head.Send("GET /get HT");
  ASSERT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.body_bytes_held == 3; }));
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(seconds(60)); });
  ASSERT_TRUE(Eventually([&](const HttpServerStats&) {
    return !RawClient::Tcp(server_->port(), milliseconds(50)).connected();
  }));
  EXPECT_EQ(body.Ask("45").body, "12345");
  const RawAnswer answer = head.Ask("TP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("connection"), "close");
  body.Close();
  head.Close();
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerDrainTest, AnswersWhatWasSentBefore) {
  const auto handler = std::make_shared<BlockingHandler>();
  handler_ = handler;
  options_.network_threads = 2;
  options_.drain_grace = seconds(20);
  Start();
  // Connections take turns on the two threads; the odd ones are on the blocked one.
  std::vector<RawClient> clients;
  const auto connect = [&] {
    clients.push_back(Connect());
    return Eventually([&](const HttpServerStats& stats) {
      return stats.connections_accepted == static_cast<int64_t>(clients.size());
    });
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(connect());
  RawClient& kept = clients[1];
  ASSERT_EQ(kept.Ask(Get("/get")).status, 200);
  clients[3].Send(Get("/get?block"));
  ASSERT_TRUE(handler->WaitBlocked());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(connect());
  clients[1].Send(Get("/get"));  // idle until now
  clients[5].Send(Get("/get"));  // accepted, never read from
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(seconds(60)); });
  ASSERT_TRUE(Eventually([&](const HttpServerStats&) {
    return !RawClient::Tcp(server_->port(), milliseconds(50)).connected();
  }));
  handler->Unblock();
  for (const size_t asked : {1, 3, 5}) {
    const RawAnswer answer = clients[asked].Read();
    EXPECT_EQ(answer.status, 200) << asked;
    EXPECT_EQ(answer.header("connection"), "close") << asked;
  }
  for (const size_t silent : {0, 2, 4, 6, 7}) {
    EXPECT_TRUE(clients[silent].WaitClosed()) << silent;
    EXPECT_EQ(clients[silent].rest(), "") << silent;
  }
  clients.clear();
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerDrainTest, AnswersPeersThatAreYetToBeAccepted) {
  const auto handler = std::make_shared<BlockingHandler>();
  handler_ = handler;
  Start();
  RawClient blocker = Connect();
  blocker.Send(Get("/get?block"));
  ASSERT_TRUE(handler->WaitBlocked());
  std::vector<RawClient> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.push_back(Connect());
    waiting.back().Send(Get("/get"));
  }
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(seconds(60)); });
  handler->Unblock();
  for (RawClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
  blocker.Close();
  waiting.clear();
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerDrainTest, AnswersABurstJustBeforeIt) {
  for (int round = 0; round < 20; ++round) {
    Start();
    std::atomic<bool> go = false;
    auto drained = std::async(std::launch::async, [&] {
      while (!go) std::this_thread::yield();  // sooner awake than by a condition
      return server_->Drain(seconds(60));
    });
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(Connect());
      clients.back().Send(Get("/get"));
    }
    go = true;
    for (RawClient& client : clients) EXPECT_EQ(client.Read().status, 200);
    clients.clear();
    EXPECT_TRUE(drained.get());
  }
}

TEST_F(HttpServerDrainTest, AnswersWhoHasJustConnectedAndIsAboutToAsk) {
  options_.drain_grace = seconds(20);
  Start();
  RawClient resting = Connect();
  ASSERT_TRUE(resting.Send(Get("/get")));
  EXPECT_EQ(resting.Read().status, 200);
  RawClient newcomer = Connect();
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(seconds(60)); });
  EXPECT_TRUE(resting.WaitClosed());  // closed: the drain has begun
  EXPECT_TRUE(newcomer.Send(Get("/get")));
  EXPECT_EQ(newcomer.Read().status, 200);
  newcomer.Close();
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerDrainTest, ClosesWhoConnectedLongAgoAndNeverAsked) {
  options_.drain_grace = milliseconds(1);
  Start();
  RawClient silent = Connect();
  EXPECT_TRUE(server_->Drain(seconds(60)));  // waits for handshakes, which is longer
  EXPECT_TRUE(silent.WaitClosed());
}

// Clients that connect until they are turned away; each connection that was made is answered.
TEST_F(HttpServerDrainTest, ResetsNoConnectionThatWasMade) {
  options_.drain_grace = seconds(20);
  for (int round = 0; round < 10; ++round) {
    Start();
    std::atomic<int> answered = 0, lost = 0;
    std::vector<std::thread> clients;
    for (int thread = 0; thread < 4; ++thread) {
      clients.emplace_back([&] {
        while (true) {
          RawClient client = RawClient::Tcp(server_->port(), milliseconds(100));
          if (!client.connected()) return;
          const bool sent = client.Send("GET /get HTTP/1.1\r\n") &&  // as clients send: in parts
                            client.Send("Host: h\r\nConnection: close\r\n\r\n");
          ++(sent && client.Read().status == 200 ? answered : lost);
        }
      });
    }
    while (answered < 20) std::this_thread::yield();
    EXPECT_TRUE(server_->Drain(seconds(60)));
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(lost, 0) << answered << " were answered";
  }
}

}  // namespace
}  // namespace pergola::gateway
