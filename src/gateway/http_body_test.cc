#include "gateway/http_body.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

using State = BodyDecoder::State;

HttpHead Chunked() {
  HttpHead head;
  head.chunked = true;
  return head;
}

HttpHead OfLength(uint64_t bytes) {
  HttpHead head;
  head.content_length = bytes;
  return head;
}

struct Outcome {
  State state = State::kMore;
  std::string body;
  std::string rest;
};

// Feeds `bytes` as a connection would: what is not consumed stays in front of the next piece.
Outcome FeedInPieces(const HttpHead& head, std::string_view bytes, size_t piece) {
  BodyDecoder decoder(head, 1000);
  Outcome outcome;
  std::string buffer;
  for (size_t at = 0; at < bytes.size() && outcome.state == State::kMore; at += piece) {
    buffer += bytes.substr(at, piece);
    const BodyDecoder::Step step = decoder.Feed(buffer);
    buffer.erase(0, step.consumed);
    outcome.state = step.state;
  }
  outcome.body = decoder.TakeBody();
  outcome.rest = buffer;
  return outcome;
}

TEST(HttpBodyTest, TakesABodyByItsLengthAndLeavesTheRest) {
  for (size_t piece = 1; piece < 12; ++piece) {
    const Outcome outcome = FeedInPieces(OfLength(5), "helloGET / HT", piece);
    EXPECT_EQ(outcome.state, State::kDone);
    EXPECT_EQ(outcome.body, "hello");
    EXPECT_EQ(std::string("GET / HT").find(outcome.rest), 0u);
  }
}

TEST(HttpBodyTest, DecodesChunksWhateverThePieces) {
  const std::string_view bytes =
      "5;name=value\r\nhello\r\n1\r\n \r\n00A;x=\"y z\"\r\n0123456789\r\n0\r\nX-Check: "
      "1\r\n\r\nGET";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Outcome outcome = FeedInPieces(Chunked(), bytes, piece);
    ASSERT_EQ(outcome.state, State::kDone) << piece;
    EXPECT_EQ(outcome.body, "hello 0123456789");
    EXPECT_EQ(std::string("GET").find(outcome.rest), 0u);
  }
}

TEST(HttpBodyTest, RefusesBrokenChunks) {
  for (const std::string_view bytes :
       {"zz\r\nabc\r\n0\r\n\r\n", "-5\r\nabc\r\n", "0x10\r\nabc\r\n", "+3\r\nabc\r\n",
        "\r\nabc\r\n", "3\nabc\r\n", " 3\r\nabc\r\n", "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n", "3\r\nabc0\r\n\r\n", "0\r\nNo colon\r\n\r\n"}) {
    for (const size_t piece : {size_t{1}, bytes.size()}) {
      EXPECT_EQ(FeedInPieces(Chunked(), bytes, piece).state, State::kBad) << bytes;
    }
  }
}

TEST(HttpBodyTest, RefusesChunksOverTheLimit) {
  EXPECT_EQ(FeedInPieces(Chunked(), "3e9\r\n", 100).state, State::kTooLarge);
  EXPECT_EQ(FeedInPieces(Chunked(), "3e8\r\n" + std::string(1000, 'x') + "\r\n1\r\n", 10000).state,
            State::kTooLarge);
  EXPECT_EQ(FeedInPieces(Chunked(), "ffffffffffffffffff\r\nabc\r\n", 100).state, State::kTooLarge);
  EXPECT_EQ(FeedInPieces(OfLength(1001), "abc", 100).state, State::kTooLarge);
  EXPECT_EQ(FeedInPieces(OfLength(UINT64_MAX), "abc", 100).state, State::kTooLarge);
}

TEST(HttpBodyTest, RefusesAnEndlessChunkHeader) {
  EXPECT_EQ(FeedInPieces(Chunked(), "1;" + std::string(80000, 'x'), 1000).state, State::kBad);
  EXPECT_EQ(FeedInPieces(Chunked(), "0\r\nA: " + std::string(80000, 'x'), 1000).state, State::kBad);
}

}  // namespace
}  // namespace pergola::gateway
