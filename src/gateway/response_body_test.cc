#include "gateway/response_body.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

TEST(ResponseBodyTest, FramesChunksAndTheirEnd) {
  std::string head = "HTTP/1.1 200 OK\r\n\r\n";
  std::string piece(26, 'x');
  FrameChunk(/*last=*/false, &head, &piece);
  EXPECT_EQ(head, "HTTP/1.1 200 OK\r\n\r\n1a\r\n");
  EXPECT_EQ(piece, std::string(26, 'x') + "\r\n");
  head.clear();
  piece.clear();
  FrameChunk(/*last=*/true, &head, &piece);
  EXPECT_EQ(head + piece, "0\r\n\r\n");
}

TEST(ResponseBodyTest, CompressesLongTextsOnly) {
  HttpResponse response;
  response.body = std::string(2000, 'x');
  EXPECT_TRUE(IsCompressible(response));
  response.headers.push_back({"content-encoding", "gzip"});
  EXPECT_FALSE(IsCompressible(response));
  response.headers.clear();
  response.status = 304;
  EXPECT_FALSE(IsCompressible(response));
  response.status = 200;
  response.body = "short";
  EXPECT_FALSE(IsCompressible(response));
  response.next_chunk = [](std::string*) { return false; };
  EXPECT_TRUE(IsCompressible(response));
  response.content_type = "application/octet-stream";
  EXPECT_FALSE(IsCompressible(response));
}

}  // namespace
}  // namespace pergola::gateway
