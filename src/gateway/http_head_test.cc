#include "gateway/http_head.h"

#include <gtest/gtest.h>

#include "gateway/testing/escapes.h"

namespace pergola::gateway {
namespace {

using State = HeadScanner::State;

std::vector<std::vector<std::string>> Heads() {
  return testing::ReadTable(PERGOLA_TEST_DATA "/http/heads.tsv");
}

TEST(HttpHeadTest, SaysOfEachHeadOfTheTableWhatIsWrong) {
  const auto rows = Heads();
  ASSERT_GT(rows.size(), 70u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 4u) << row[0];
    SCOPED_TRACE(row[0]);
    HttpHead head;
    const auto error = ParseHead(testing::Unescaped(row[3]), &head);
    EXPECT_EQ(error ? error->status : 0, std::stoi(row[1])) << (error ? error->message : "");
    if (error) {
      EXPECT_NE(error->message.find(row[2]), std::string::npos) << error->message;
      EXPECT_LT(error->message.size(), 250u);
    }
  }
}

TEST(HttpHeadTest, ScannerFindsTheSameWhateverThePieces) {
  for (const auto& row : Heads()) {
    SCOPED_TRACE(row[0]);
    const std::string bytes = testing::Unescaped(row[3]);
    HeadScanner whole;
    const State expected = whole.Scan(bytes);
    HeadScanner dribbled;
    State state = State::kMore;
    for (size_t size = 1; size <= bytes.size() && state == State::kMore; ++size) {
      state = dribbled.Scan(std::string_view(bytes).substr(0, size));
    }
    EXPECT_EQ(state, expected);
    EXPECT_EQ(dribbled.error(), whole.error());
    if (state == State::kComplete) {
      EXPECT_EQ(dribbled.head(bytes), whole.head(bytes));
    }
  }
}

TEST(HttpHeadTest, ScannerStopsAtTheEndOfTheFirstHead) {
  const std::string bytes = "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n";
  HeadScanner scanner;
  ASSERT_EQ(scanner.Scan(bytes), State::kComplete);
  EXPECT_EQ(scanner.begin(), 2u);
  EXPECT_EQ(scanner.head(bytes), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST(HttpHeadTest, ParsesAPlainRequest) {
  HttpHead head;
  const auto error = ParseHead(
      "POST /v1/models/a%2Fb%3f?x=%20?y HTTP/1.1\r\nHost: a:1\r\nContent-Length: 005\r\n"
      "X-A: \t b c \r\nx-a: second\r\n\r\n",
      &head);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.target, "/v1/models/a%2Fb%3f?x=%20?y");
  EXPECT_EQ(head.path, "/v1/models/a/b?");
  EXPECT_EQ(head.query, "x=%20?y");
  EXPECT_EQ(head.content_length, 5u);
  EXPECT_EQ(head.header("x-a"), "b c");
  EXPECT_EQ(head.header("x-b"), std::nullopt);
  EXPECT_TRUE(head.keep_alive);
  EXPECT_TRUE(head.has_body());
}

TEST(HttpHeadTest, DecodesAPathOnce) {
  EXPECT_EQ(PercentDecode("/a%252Fb+c"), "/a%2Fb+c");
  EXPECT_EQ(PercentDecode("%E6%9d%B1"), "\xe6\x9d\xb1");
}

TEST(HttpHeadTest, HonoursTheConnectionHeader) {
  const auto keeps = [](std::string_view version, std::string_view fields) {
    HttpHead head;
    const auto error = ParseHead(
        "GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n" + std::string(fields) + "\r\n",
        &head);
    EXPECT_FALSE(error);
    return head.keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: foo, CLOSE\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
  EXPECT_TRUE(keeps("1.1", "Connection: closed\r\n"));
}

TEST(HttpHeadTest, RefusesMoreThanAThousandFields) {
  std::string bytes = "GET /p HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 1001; ++i) bytes += "a:b\r\n";
  HttpHead head;
  const auto error = ParseHead(bytes + "\r\n", &head);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, 431);
  EXPECT_EQ(head.path, "/p");
}

TEST(HttpHeadTest, PrintableIsShortAscii) {
  EXPECT_EQ(Printable("a\xff\x01 b"), "a?? b");
  EXPECT_EQ(Printable(std::string(500, 'x')), std::string(80, 'x') + "...");
}

}  // namespace
}  // namespace pergola::gateway
