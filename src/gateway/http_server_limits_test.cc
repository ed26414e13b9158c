// Limits, deadlines, keys, cancellation. Messages: http_server_test.cc; drain:
// http_server_drain_test.cc.
#include <gtest/gtest.h>

#include <fstream>

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

constexpr std::string_view kChunkedHead =
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

// A request without the last bytes of its body.
std::string Unfinished() {
  const std::string whole = Post("/echo", "12345");
  return whole.substr(0, whole.size() - 2);
}

class HttpServerLimitsTest : public testing::ServerTest {};

TEST_F(HttpServerLimitsTest, RefusesAHeadOverTheLimit) {
  options_.header_limit_bytes = 1000;
  Start();
  for (const std::string& bytes :
       {Get("/get", "X: " + std::string(2000, 'x') + "\r\n"), "GET /" + std::string(20'000, 'x'),
        Get("/get", "X: " + std::string(5'000'000, 'x') + "\r\n")}) {
    RawClient client = Connect();
    const RawAnswer answer = client.Ask(bytes);
    EXPECT_EQ(answer.status, 431);
    EXPECT_NE(answer.body.find("1000"), std::string::npos);
    EXPECT_EQ(answer.header("connection"), "close");
    EXPECT_TRUE(client.WaitClosed());
  }
}

TEST_F(HttpServerLimitsTest, RefusesABodyOverTheLimitFromItsLengthAlone) {
  options_.max_body_bytes = 1000;
  Start();
  const RawAnswer answer =
      Ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n{\"model\"");
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("limit of 1000 bytes\",\"path\":\"/echo\""), std::string::npos);
  EXPECT_EQ(Ask(Post("/echo", std::string(1000, 'x'))).status, 200);
  EXPECT_EQ(Ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n")
                .status,
            413);
}

TEST_F(HttpServerLimitsTest, AClientThatSendsMuchTooMuchStillSeesTheAnswer) {
  options_.max_body_bytes = 1000;
  Start();
  RawClient client = Connect();
  client.Send(kChunkedHead);
  const std::string chunk = "10000\r\n" + std::string(65536, ' ') + "\r\n";
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(client.Send(chunk));
  EXPECT_EQ(client.Read().status, 413);
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(HttpServerLimitsTest, BodiesTogetherStayWithinTheBudget) {
  options_.max_body_bytes = 1 << 20;
  options_.body_budget_bytes = 4 << 20;
  Start();
  // Each holds 1 MiB but for its last byte; three fit into seven eighths of 4 MiB.
  const std::string unfinished = Post("/echo", std::string(1 << 20, 'x'));
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    clients.back().Send(unfinished.substr(0, unfinished.size() - 1));
    ASSERT_TRUE(Eventually([&](const HttpServerStats& stats) {
      return stats.body_bytes_held == (i + 1) * ((1 << 20) - 1);
    }));
  }
  const RawAnswer refused = Ask(unfinished);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(Ask(Post("/echo", "a small one")).status, 200);
  for (RawClient& client : clients) EXPECT_EQ(client.Ask("x").status, 200);
  EXPECT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.body_bytes_held == 0; }));
}

TEST_F(HttpServerLimitsTest, ASlowHeadEndsWith408) {
  options_.header_deadline = milliseconds(40);
  Start();
  RawClient client = Connect();
  client.Send("GET /get HT");
  const RawAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 408);
  EXPECT_NE(answer.body.find("40 ms"), std::string::npos);
  EXPECT_TRUE(client.WaitClosed());
  // Who sends nothing at all is closed without a word.
  RawClient silent = Connect();
  EXPECT_TRUE(silent.WaitClosed());
  EXPECT_EQ(silent.rest(), "");
}

TEST_F(HttpServerLimitsTest, ADribbledHeadGetsNoMoreTimeForEachByte) {
  options_.header_deadline = milliseconds(60);
  options_.linger_timeout = milliseconds(50);
  Start();
  RawClient client = Connect();
  const auto start = service::Clock::now();
  client.Send("GET /get?");
  while (client.Send("x") && service::Clock::now() - start < seconds(10)) std::this_thread::yield();
  EXPECT_LT(service::Clock::now() - start, seconds(5));
}

TEST_F(HttpServerLimitsTest, ASlowBodyEndsWith408) {
  options_.body_deadline = milliseconds(40);
  Start();
  for (const std::string& bytes : {Unfinished(), std::string(kChunkedHead) + "5\r\n12"}) {
    RawClient client = Connect();
    const RawAnswer answer = client.Ask(bytes);
    EXPECT_EQ(answer.status, 408);
    EXPECT_NE(answer.body.find("\"path\":\"/echo\""), std::string::npos);
    EXPECT_TRUE(client.WaitClosed());
  }
}

TEST_F(HttpServerLimitsTest, BytesReceivedEarnTime) {
  options_.body_deadline = milliseconds(1);
  options_.body_bytes_per_second = 1;  // each byte earns a second
  Start();
  RawClient client = Connect();
  const std::string bytes = Post("/echo", "0123456789");
  client.Send(bytes.substr(0, bytes.size() - 1));
  ASSERT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.body_bytes_held == 9; }));
  const auto beyond = service::Clock::now() + 2 * options_.body_deadline;
  while (service::Clock::now() < beyond) std::this_thread::yield();
  EXPECT_EQ(client.Ask("9").status, 200);
}

TEST_F(HttpServerLimitsTest, ClosesIdleConnections) {
  options_.keepalive_timeout = milliseconds(30);
  Start();
  RawClient client = Connect();
  EXPECT_EQ(client.Ask(Get("/get")).status, 200);
  EXPECT_TRUE(client.WaitClosed());
  EXPECT_EQ(client.rest(), "");
}

TEST_F(HttpServerLimitsTest, ClosesAfterTheLastRequestAllowed) {
  options_.keepalive_max_requests = 2;
  Start();
  RawClient client = Connect();
  // Requests that are under way when the server closes must not cost the client its last answer.
  for (int i = 0; i < 1000; ++i) client.Send(Get("/get"));
  EXPECT_EQ(client.Read().header("connection"), "");
  EXPECT_EQ(client.Read().header("connection"), "close");
  EXPECT_TRUE(client.WaitClosed());
  EXPECT_EQ(client.rest(), "");
}

TEST_F(HttpServerLimitsTest, AFullSetOfIdlePeersMakesRoomForANewOne) {
  options_.max_connections = 8;
  Start();
  std::vector<RawClient> idle;
  for (int i = 0; i < 8; ++i) {
    idle.push_back(Connect());
    // Half of them kept alive, half in the middle of a head.
    if (i % 2 == 0) {
      ASSERT_EQ(idle.back().Ask(Get("/get")).status, 200);
    } else {
      idle.back().Send("GET /");
    }
  }
  ASSERT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.idle_connections == 8; }));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(Ask(Get("/get", "Connection: close\r\n")).status, 200);
  EXPECT_GE(server_->stats().connections_evicted, 1);
  EXPECT_LE(server_->stats().connections, 9);
}

TEST_F(HttpServerLimitsTest, RefusesPolitelyWhenAllConnectionsAreAtWork) {
  options_.max_connections = 2;
  Start();
  std::vector<RawClient> busy;
  for (size_t i = 0; i < 2; ++i) {
    busy.push_back(Connect());
    busy.back().Send(Get("/hold"));
    ASSERT_TRUE(handler_->WaitHeld(i + 1));
  }
  RawClient late = Connect();
  const RawAnswer answer = late.Read();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.header("retry-after"), "1");
  EXPECT_TRUE(late.WaitClosed());
  handler_->Answer(0, "a");
  EXPECT_EQ(busy[0].Read().body, "a");
}

TEST_F(HttpServerLimitsTest, AnswersWith504PastTheDeadlineAndCancels) {
  options_.request_timeout = milliseconds(30);
  Start();
  RawClient client = Connect();
  const RawAnswer answer = client.Ask(Get("/hold"));
  EXPECT_EQ(answer.status, 504);
  EXPECT_NE(answer.body.find("30 ms\",\"path\":\"/hold\""), std::string::npos);
  EXPECT_TRUE(handler_->cancel(0)->cancelled());
  handler_->Answer(0, "too late");
  EXPECT_EQ(client.Ask(Get("/get")).body, "{\"path\":\"/get\"}");
}

TEST_F(HttpServerLimitsTest, TakesTheDeadlineOfTheClient) {
  Start();
  RawClient client = Connect();
  EXPECT_EQ(client.Ask(Get("/hold", "x-request-timeout-ms: 20\r\n")).status, 504);
  EXPECT_LT(handler_->deadline(0), service::Clock::now());
  EXPECT_EQ(client.Ask(Get("/get", "x-request-timeout-ms: 99999999999999999999\r\n")).status, 200);
  for (const char* bad : {"0", "-5", "abc", "1.5", "5s", ""}) {
    const RawAnswer answer =
        client.Ask(Get("/get", "x-request-timeout-ms: " + std::string(bad) + "\r\n"));
    EXPECT_EQ(answer.status, 400) << bad;
  }
}

TEST_F(HttpServerLimitsTest, AClientThatGoesAwayCancelsItsRequest) {
  Start();
  for (size_t way = 0; way < 3; ++way) {
    RawClient client = Connect();
    client.Send(Get("/hold"));
    ASSERT_TRUE(handler_->WaitHeld(way + 1));
    EXPECT_FALSE(handler_->cancel(way)->cancelled());
    if (way == 0) client.Close();
    if (way == 1) client.Reset();
    if (way == 2) client.ShutdownSend();  // a FIN counts, whatever the client still reads
    EXPECT_EQ(Logged(way).status, 499);
    EXPECT_TRUE(handler_->cancel(way)->cancelled());
    handler_->Answer(way, "to nobody");
  }
  EXPECT_EQ(Ask(Get("/get")).status, 200);
}

TEST_F(HttpServerLimitsTest, PipelinedBytesDoNotHideThatTheClientWentAway) {
  Start();
  RawClient client = Connect();
  client.Send(Get("/hold") + Get("/get"));
  ASSERT_TRUE(handler_->WaitHeld(1));
  handler_->Answer(0, "first");
  EXPECT_EQ(client.Read().body, "first");
  EXPECT_EQ(client.Read().body, "{\"path\":\"/get\"}");
  client.Send(Get("/hold") + Get("/get"));
  ASSERT_TRUE(handler_->WaitHeld(2));
  client.Close();
  EXPECT_EQ(Logged(2).status, 499);
  EXPECT_TRUE(handler_->cancel(1)->cancelled());
}

TEST_F(HttpServerLimitsTest, HangingUpAtAnyPointDoesNoHarm) {
  Start();
  const std::string bytes = Post("/echo", std::string(200, 'x'));
  for (size_t part = 0; part <= bytes.size(); part += 7) {
    RawClient polite = Connect();
    polite.Send(bytes.substr(0, part));
    polite.Close();
    RawClient rude = Connect();
    rude.Send(bytes.substr(0, part));
    rude.Reset();
  }
  EXPECT_EQ(Ask(bytes).status, 200);
  EXPECT_TRUE(Eventually([](const HttpServerStats& stats) {
    return stats.connections == 0 && stats.requests_in_work == 0 && stats.body_bytes_held == 0;
  }));
}

TEST_F(HttpServerLimitsTest, AStreamWaitsForItsReaderAndEndsWithIt) {
  Start();
  {
    RawClient client = Connect();
    client.Send(Get("/endless"));
    char some[1000];
    ASSERT_GT(::recv(client.fd(), some, sizeof(some), 0), 0);
    // Others are served while this one does not read on.
    for (int i = 0; i < 5; ++i) ASSERT_EQ(Ask(Get("/get")).status, 200);
  }
  EXPECT_TRUE(Eventually([](const HttpServerStats& stats) { return stats.requests_in_work == 0; }));
}

TEST_F(HttpServerLimitsTest, APeerThatReadsTooSlowlyIsClosed) {
  options_.body_deadline = milliseconds(50);
  options_.body_bytes_per_second = 1 << 30;
  Start();
  RawClient client = Connect();
  client.Send(Get("/endless"));
  EXPECT_TRUE(Eventually([](const HttpServerStats& stats) {
    return stats.connections_accepted == 1 && stats.connections == 0;
  }));
  EXPECT_EQ(Logged(0).status, 499);
}

TEST_F(HttpServerLimitsTest, KeysCoverEveryRouteThatNeedsOne) {
  options_.api_key_file = folder_ / "keys";
  options_.open_metrics = true;
  std::ofstream(options_.api_key_file) << "alpha\nbeta\n";
  Start();
  RawClient client = Connect();
  const RawAnswer none = client.Ask(Post("/echo", "{this is no json"));
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("www-authenticate"), "Bearer");
  EXPECT_NE(none.body.find("\"path\":\"/echo\""), std::string::npos);
  EXPECT_EQ(client.Ask(Get("/get", "Authorization: Bearer wrong\r\n")).status, 401);
  EXPECT_EQ(client.Ask(Get("/get", "Authorization: bEARER beta\r\n")).status, 200);
  EXPECT_EQ(client.Ask(Get("/open")).status, 200);
  EXPECT_EQ(client.Ask(Get("/metrics")).status, 200);
  EXPECT_EQ(client.Ask(Get("/docs")).status, 401);
  EXPECT_EQ(Logged(2).api_key, 1);
  const std::string right = "Authorization: Bearer alpha\r\n";
  const std::string wrong = "authorization: Bearer wrong\r\n";
  for (const std::string& two : {right + wrong, wrong + right, right + right}) {
    const RawAnswer answer = client.Ask(Get("/get", two));
    EXPECT_EQ(answer.status, 401) << two;
    EXPECT_NE(answer.body.find("more than one Authorization"), std::string::npos);
  }

  std::ofstream(options_.api_key_file) << "gamma\n";
  EXPECT_TRUE(server_->ReloadKeys().ok());
  EXPECT_EQ(client.Ask(Get("/get", "Authorization: Bearer beta\r\n")).status, 401);
  EXPECT_EQ(client.Ask(Get("/get", "Authorization: Bearer gamma\r\n")).status, 200);
}

TEST_F(HttpServerLimitsTest, EndsWhileRequestsAreInEveryState) {
  options_.network_threads = 2;
  Start();
  std::vector<RawClient> clients;
  for (const std::string& bytes : {std::string(), std::string("GET /"), Unfinished(), Get("/hold"),
                                   Get("/endless"), Get("/get")}) {
    for (int i = 0; i < 4; ++i) {
      clients.push_back(Connect());
      clients.back().Send(bytes);
    }
  }
  ASSERT_TRUE(handler_->WaitHeld(4));
  server_.reset();
  for (RawClient& client : clients) EXPECT_TRUE(client.WaitClosed());
  handler_->Answer(0, "the server is gone");  // nothing happens
  handler_->Release();                        // unanswered ones as well
}

TEST_F(HttpServerLimitsTest, ManyClientsOnTwoThreads) {
  options_.network_threads = 2;
  options_.max_connections = 64;
  Start();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      RawClient kept = Connect();
      for (int turn = 0; turn < 50; ++turn) {
        const std::string body = std::to_string(thread) + ":" + std::to_string(turn);
        right += kept.Ask(Post("/echo", body)).body == body;
        right += Ask(Get("/stream")).body.size() == 5005;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

}  // namespace
}  // namespace pergola::gateway
