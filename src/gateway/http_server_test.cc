// Messages: what is read, refused and written. Limits and deadlines: http_server_limits_test.cc.
#include "gateway/http_server.h"

#include <gtest/gtest.h>

#include "gateway/gzip.h"
#include "gateway/testing/escapes.h"
#include "gateway/testing/server_fixture.h"

namespace pergola::gateway {
namespace {

using testing::Get;
using testing::Post;
using testing::RawAnswer;
using testing::RawClient;

class HttpServerTest : public testing::ServerTest {};

TEST_F(HttpServerTest, AnswersWithTheHeadersOfEveryAnswer) {
  Start();
  const RawAnswer answer = Ask(Get("/get?a=%20"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "{\"path\":\"/get\"}");
  EXPECT_EQ(answer.header("x-query"), "a=%20");
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
  EXPECT_GE(answer.header("x-request-id").size(), 8u);
  EXPECT_TRUE(answer.header("server").starts_with("pergola/"));
  EXPECT_EQ(answer.header("date").size(), 29u);
  EXPECT_EQ(answer.header("connection"), "");
  EXPECT_EQ(answer.header("access-control-allow-origin"), "");
}

TEST_F(HttpServerTest, TakesOverASaneRequestId) {
  Start();
  EXPECT_EQ(Ask(Get("/get", "X-Request-Id: abc.1\r\n")).header("x-request-id"), "abc.1");
  EXPECT_EQ(Ask(Get("/nothing", "X-Request-Id: abc.1\r\n")).header("x-request-id"), "abc.1");
  EXPECT_NE(Ask(Get("/get", "X-Request-Id: a b\r\n")).header("x-request-id"), "a b");
}

TEST_F(HttpServerTest, DecodesThePathOnceAndTakesAbsoluteTargets) {
  Start();
  EXPECT_EQ(Ask(Get("/a%2Fb")).body, "{\"path\":\"/a/b\"}");
  EXPECT_EQ(Ask(Get("/a%252Fb")).status, 404);
  EXPECT_EQ(Ask(Get("http://x:1/get?q")).header("x-query"), "q");
}

TEST_F(HttpServerTest, ServesManyRequestsOnOneConnection) {
  Start();
  RawClient client = Connect();
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_EQ(client.Ask(Post("/echo", "body " + std::to_string(turn))).body,
              "body " + std::to_string(turn));
    ASSERT_EQ(client.Ask(Get("/nothing")).status, 404);
    ASSERT_EQ(client.Ask(Post("/nothing", "a body that nobody wants")).status, 404);
  }
  EXPECT_EQ(server_->stats().connections_accepted, 1);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Start();
  std::string bytes;
  for (int turn = 0; turn < 30; ++turn) {
    bytes += turn % 3 == 2 ? Get("/get") : Post("/echo", "number " + std::to_string(turn));
  }
  for (const size_t piece : {bytes.size(), size_t{13}}) {
    RawClient client = Connect();
    for (size_t at = 0; at < bytes.size(); at += piece) client.Send(bytes.substr(at, piece));
    for (int turn = 0; turn < 30; ++turn) {
      ASSERT_EQ(client.Read().body,
                turn % 3 == 2 ? "{\"path\":\"/get\"}" : "number " + std::to_string(turn));
    }
  }
}

TEST_F(HttpServerTest, ClosesWhenAskedTo) {
  Start();
  RawClient close = Connect();
  EXPECT_EQ(close.Ask(Get("/get", "Connection: close\r\n")).header("connection"), "close");
  EXPECT_TRUE(close.WaitClosed());
  RawClient old = Connect();
  EXPECT_EQ(old.Ask("GET /get HTTP/1.0\r\n\r\n").header("connection"), "close");
  EXPECT_TRUE(old.WaitClosed());
  RawClient kept = Connect();
  const std::string bytes = "GET /get HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  EXPECT_EQ(kept.Ask(bytes).header("connection"), "keep-alive");
  EXPECT_EQ(kept.Ask(bytes).status, 200);
}

TEST_F(HttpServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  Start();
  RawClient client = Connect();
  for (const char* fields : {"", "Accept-Encoding: gzip\r\n"}) {
    const RawAnswer get = client.Ask(Get("/large", fields));
    client.Send("HEAD /large HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n");
    const RawAnswer head = client.Read(true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.header("content-length"), get.header("content-length"));
    EXPECT_EQ(head.header("content-encoding"), get.header("content-encoding"));
    EXPECT_EQ(head.headers.size(), get.headers.size());
  }
  EXPECT_EQ(client.Ask(Get("/get")).status, 200);
}

TEST_F(HttpServerTest, RefusesTheBadHeadsOfTheTableAndCloses) {
  Start();
  for (const auto& row : testing::ReadTable(PERGOLA_TEST_DATA "/http/heads.tsv")) {
    if (row[1] == "0") continue;
    SCOPED_TRACE(row[0]);
    RawClient client = Connect();
    const RawAnswer answer = client.Ask(testing::Unescaped(row[3]));
    EXPECT_EQ(answer.status, std::stoi(row[1]));
    EXPECT_NE(answer.body.find(row[2]), std::string::npos) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/json");
    EXPECT_EQ(answer.header("connection"), "close");
    EXPECT_NE(answer.header("x-request-id"), "");
    EXPECT_TRUE(client.WaitClosed());
    EXPECT_EQ(client.rest(), "");
  }
}

TEST_F(HttpServerTest, UnknownPathAndMethodAreRendered) {
  Start();
  const RawAnswer unknown = Ask(Get("/nothing"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("\"path\":\"/nothing\""), std::string::npos);
  const RawAnswer method = Ask(Get("/echo"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "POST");
  EXPECT_EQ(Ask("DELETE /get HTTP/1.1\r\nHost: a\r\n\r\n").header("allow"), "GET, HEAD");
}

TEST_F(HttpServerTest, ChecksTheContentType) {
  Start();
  const auto status = [this](const char* path, const std::string& type) {
    return Ask(Post(path, "{}", "Content-Type: " + type + "\r\n")).status;
  };
  EXPECT_EQ(Ask(Post("/echo", "{}")).status, 200);
  for (const char* good :
       {"application/json", "Application/JSON", "application/json ; charset=\"utf-8\""}) {
    EXPECT_EQ(status("/echo", good), 200) << good;
  }
  for (const char* bad : {"text/plain", "application/jsonx", "multipart/form-data; boundary=x",
                          "application/x-www-form-urlencoded"}) {
    EXPECT_EQ(status("/echo", bad), 415) << bad;
  }
  EXPECT_EQ(status("/form", "application/x-www-form-urlencoded"), 200);
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  Start();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawClient client = Connect();
  EXPECT_EQ(client.Ask(head + "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n").body, "abcde");
  EXPECT_EQ(client.Ask(head + "0\r\n\r\n").body, "");
  const RawAnswer bad = client.Ask(head + "0x10\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(bad.status, 400);
  EXPECT_NE(bad.body.find("\"path\":\"/echo\""), std::string::npos);
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(HttpServerTest, UnpacksGzipBodies) {
  options_.max_body_bytes = 10'000;
  Start();
  const std::string plain(9'000, 'x');
  RawClient client = Connect();
  EXPECT_EQ(client.Ask(Post("/echo", Gzip(plain), "Content-Encoding: gzip\r\n")).body, plain);
  EXPECT_EQ(client.Ask(Post("/echo", Gzip(plain), "Content-Encoding: X-GZIP\r\n")).body, plain);
  EXPECT_EQ(client.Ask(Post("/echo", "no gzip", "Content-Encoding: gzip\r\n")).status, 400);
  EXPECT_EQ(client.Ask(Post("/echo", plain, "Content-Encoding: identity\r\n")).body, plain);
  const RawAnswer bomb =
      client.Ask(Post("/echo", Gzip(std::string(1'000'000, 'x')), "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(bomb.status, 413);
  EXPECT_NE(bomb.body.find("10000"), std::string::npos);
  EXPECT_EQ(client.Ask(Post("/echo", "x", "Content-Encoding: deflate\r\n")).status, 415);
  EXPECT_EQ(client.Ask(Post("/echo", "x", "Content-Encoding: gzip, gzip\r\n")).status, 415);
  EXPECT_EQ(client.Ask(Get("/get")).status, 200);
}

TEST_F(HttpServerTest, PacksLargeAnswersWhenAsked) {
  Start();
  const RawAnswer plain = Ask(Get("/large"));
  EXPECT_EQ(plain.header("content-encoding"), "");
  EXPECT_EQ(plain.header("vary"), "accept-encoding");
  const RawAnswer packed = Ask(Get("/large", "Accept-Encoding: deflate;q=0.5, gzip\r\n"));
  EXPECT_EQ(packed.header("content-encoding"), "gzip");
  const Result<std::string> unpacked = Gunzip(packed.body, 1 << 20);
  ASSERT_TRUE(unpacked.ok());
  EXPECT_EQ(*unpacked, plain.body);
  EXPECT_EQ(Ask(Get("/large", "Accept-Encoding: gzip;q=0, *\r\n")).body, plain.body);
  EXPECT_EQ(Ask(Get("/get", "Accept-Encoding: gzip\r\n")).header("content-encoding"), "");
  // Large enough to be packed on a worker.
  const std::string body(300'000, 'y');
  const RawAnswer echoed = Ask(Post("/echo", body, "Accept-Encoding: gzip\r\n"));
  EXPECT_EQ(Gunzip(echoed.body, 1 << 20).value(), body);
}

TEST_F(HttpServerTest, SaysContinueBeforeTheBody) {
  Start();
  const std::string fields = "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
  RawClient client = Connect();
  EXPECT_EQ(client.Ask("POST /echo HTTP/1.1\r\nHost: a\r\n" + fields).status, 100);
  EXPECT_EQ(client.Ask("body").body, "body");
  // A body that came along needs no word.
  EXPECT_EQ(client.Ask("POST /echo HTTP/1.1\r\nHost: a\r\n" + fields + "body").body, "body");
  // What is refused by the head is refused without the body.
  EXPECT_EQ(client.Ask("POST /get HTTP/1.1\r\nHost: a\r\n" + fields).status, 405);
  EXPECT_TRUE(client.WaitClosed());
  EXPECT_EQ(Ask("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                "Content-Length: 99999999\r\n\r\n")
                .status,
            413);
}

TEST_F(HttpServerTest, StreamsAnswersInChunks) {
  Start();
  const std::string expected = "start" + std::string(5'000, 'x');
  RawClient client = Connect();
  const RawAnswer chunked = client.Ask(Get("/stream"));
  EXPECT_EQ(chunked.header("transfer-encoding"), "chunked");
  EXPECT_EQ(chunked.body, expected);
  const RawAnswer packed = client.Ask(Get("/stream", "Accept-Encoding: gzip\r\n"));
  EXPECT_EQ(Gunzip(packed.body, 1 << 20).value(), expected);
  client.Send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.Read(true).header("transfer-encoding"), "chunked");
  EXPECT_EQ(client.Ask(Get("/get")).status, 200);
  const RawAnswer old = Ask("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(old.header("transfer-encoding"), "");
  EXPECT_EQ(old.header("connection"), "close");
  EXPECT_EQ(old.body, expected);
}

TEST_F(HttpServerTest, AnswersOnceEvenIfTheHandlerDoesNot) {
  Start();
  RawClient client = Connect();
  EXPECT_EQ(client.Ask(Get("/drop")).status, 500);
  EXPECT_EQ(client.Ask(Get("/twice")).body, "{\"path\":\"/twice\"}");
  EXPECT_EQ(client.Ask(Get("/get")).body, "{\"path\":\"/get\"}");
}

TEST_F(HttpServerTest, OptionsTellsTheMethodsWithoutCors) {
  Start();
  const RawAnswer answer =
      Ask("OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n"
          "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.header("allow"), "POST");
  EXPECT_EQ(answer.header("access-control-allow-origin"), "");
  EXPECT_EQ(answer.header("access-control-allow-methods"), "");
  EXPECT_EQ(answer.header("content-length"), "");
  EXPECT_EQ(Ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status, 204);
}

TEST_F(HttpServerTest, AllowsTheOriginsGiven) {
  options_.cors_origins = {"https://app.example"};
  Start();
  const RawAnswer preflight =
      Ask("OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n"
          "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(preflight.header("access-control-allow-methods"), "POST");
  EXPECT_TRUE(
      preflight.header("access-control-allow-headers").starts_with("Authorization, Content-Type"));
  EXPECT_EQ(
      Ask(Get("/get", "Origin: https://app.example\r\n")).header("access-control-allow-origin"),
      "https://app.example");
  EXPECT_EQ(Ask(Get("/get", "Origin: https://other\r\n")).header("access-control-allow-origin"),
            "");
}

TEST_F(HttpServerTest, LogsEachRequest) {
  Start();
  RawClient client = Connect();
  client.Ask(Post("/echo", "12345", "X-Request-Id: id-7\r\n"));
  client.Ask("GARBAGE\r\n\r\n");
  const RequestLog log = Logged(0);
  EXPECT_EQ(log.method, "POST");
  EXPECT_EQ(log.path, "/echo");
  EXPECT_EQ(log.route, "/echo");
  EXPECT_EQ(log.status, 200);
  EXPECT_EQ(log.received_bytes, 5u);
  EXPECT_EQ(log.sent_bytes, 5u);
  EXPECT_EQ(log.request_id, "id-7");
  EXPECT_EQ(log.api_key, -1);
  EXPECT_TRUE(log.peer.starts_with("127.0.0.1:"));
  EXPECT_GT(log.duration.count(), 0);
  EXPECT_EQ(Logged(1).status, 400);
}

}  // namespace
}  // namespace pergola::gateway
