#include "gateway/http_head.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

TEST(HttpHeadTest, ParsesAPlainRequest) {
  HttpHead head;
  const auto error = ParseHead(
      "POST /v1/models/a%2Fb?x=%20 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\nX-A:  b c "
      "\r\n\r\n",
      &head);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/models/a/b");
  EXPECT_EQ(head.query, "x=%20");
  EXPECT_EQ(head.content_length, 5u);
  EXPECT_EQ(head.header("x-a"), "b c");
  EXPECT_TRUE(head.keep_alive);
  EXPECT_TRUE(head.has_body());
}

}  // namespace
}  // namespace pergola::gateway
