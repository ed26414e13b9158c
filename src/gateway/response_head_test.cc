#include "gateway/response_head.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

bool Has(const std::string& head, std::string_view part) {
  return head.find(part) != std::string::npos;
}

TEST(ResponseHeadTest, HoldsWhatEveryAnswerHas) {
  ResponseFrame frame;
  frame.length = 12;
  frame.request_id = "id-1";
  const std::string head = ResponseHead(HttpResponse{}, frame);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  for (const std::string_view line :
       {"date: ", "server: pergola/", "content-type: application/json\r\n",
        "content-length: 12\r\n", "x-request-id: id-1\r\n",
        "x-content-type-options: nosniff\r\n"}) {
    EXPECT_TRUE(Has(head, line)) << line << head;
  }
  EXPECT_FALSE(Has(head, "connection:"));
  EXPECT_FALSE(Has(head, "access-control"));
  EXPECT_TRUE(Has(head, " GMT\r\n"));
}

TEST(ResponseHeadTest, SaysWhenTheConnectionEnds) {
  ResponseFrame frame;
  frame.keep_alive = false;
  EXPECT_TRUE(Has(ResponseHead(HttpResponse{}, frame), "connection: close\r\n"));
  frame.keep_alive = true;
  frame.minor_version = 0;
  EXPECT_TRUE(Has(ResponseHead(HttpResponse{}, frame), "connection: keep-alive\r\n"));
}

TEST(ResponseHeadTest, CannotBeSplitByAValue) {
  HttpResponse response;
  response.headers.push_back({"x-a", "b\r\nSet-Cookie: c"});
  EXPECT_TRUE(Has(ResponseHead(response, {}), "x-a: b  Set-Cookie: c\r\n"));
}

TEST(ResponseHeadTest, NamesOriginAndCoding) {
  ResponseFrame frame;
  frame.framing = BodyFraming::kChunked;
  frame.gzip = frame.varies_by_coding = true;
  frame.allow_origin = "https://a.example";
  const std::string head = ResponseHead(HttpResponse{}, frame);
  for (const std::string_view line :
       {"transfer-encoding: chunked\r\n", "content-encoding: gzip\r\n",
        "vary: accept-encoding, origin\r\n",
        "access-control-allow-origin: https://a.example\r\n"}) {
    EXPECT_TRUE(Has(head, line)) << line << head;
  }
  EXPECT_FALSE(Has(head, "content-length"));
}

}  // namespace
}  // namespace pergola::gateway
