// Takes a request body off the wire by its framing: Content-Length or chunked.
//
//   BodyDecoder decoder(head, 16 << 20);
//   auto step = decoder.Feed(buffer);     // step.consumed bytes are done with
//   if (step.state == BodyDecoder::State::kDone) Use(decoder.TakeBody());
//
// As strict as http_head.h, and for the same reason. Not Beast's parser: Boost 1.81's waits for
// ever on the chunk size "0x10" and fails an assertion on a trailer without a colon. Does no
// content decoding (gzip.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http_head.h"

namespace pergola::gateway {

// Thread-compatible.
class BodyDecoder {
 public:
  // `head`: checked by ParseHead; not kept.
  BodyDecoder(const HttpHead& head, uint64_t max_body_bytes);

  enum class State {
    kMore,  // call again with the bytes that follow
    kDone,
    kTooLarge,  // over max_body_bytes
    kBad,       // error() says what is wrong with the framing
  };
  struct Step {
    State state = State::kMore;
    size_t consumed = 0;
  };
  // Appends what `bytes` hold of the body. kMore: all were consumed. kDone: those after the body
  // were not. Chunk extensions and trailer fields are checked and dropped; together they may take
  // 64 KiB and 16 bytes for each byte of the body. Not to be called again after another state than
  // kMore.
  Step Feed(std::string_view bytes);

  size_t size() const { return body_.size(); }  // of the body so far
  std::string TakeBody() { return std::move(body_); }
  const std::string& error() const { return error_; }

 private:
  // What the next byte of a chunked body belongs to.
  enum class At {
    kFirstSizeDigit,
    kSizeDigit,
    kExtension,
    kSizeLineFeed,
    kData,
    kDataReturn,
    kDataLineFeed,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerLineFeed,
    kLastLineFeed,
    kEnd,
  };

  State FeedByte(char c);
  State FeedSizeByte(char c);
  State FeedTrailerByte(char c);
  State Bad(const char* what);

  const uint64_t max_body_bytes_;
  const bool chunked_;
  At at_ = At::kFirstSizeDigit;
  uint64_t left_ = 0;  // of the data of this chunk, or of the body with a Content-Length
  uint64_t framing_bytes_ = 0;
  std::string body_;
  std::string error_;
};

}  // namespace pergola::gateway
