// Takes a request body off the wire by its framing (Content-Length or chunked): Beast's parser, fed
// by hand.
//
//   BodyDecoder decoder(head_bytes, 16 << 20);
//   auto step = decoder.Feed(buffer);     // step.consumed bytes are done with
//   if (step.state == BodyDecoder::State::kDone) Use(decoder.TakeBody());
//
// The head was checked by http_head.h before; Beast reads it a second time, so both parsers must
// agree on where a body ends. Does no content decoding (gzip.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pergola::gateway {

// Thread-compatible.
class BodyDecoder {
 public:
  // `head`: the bytes of a checked head, closing empty line included; not kept.
  BodyDecoder(std::string_view head, uint64_t max_body_bytes);
  ~BodyDecoder();

  enum class State {
    kMore,  // call again with the bytes not consumed and more
    kDone,
    kTooLarge,  // over max_body_bytes
    kBad,       // error() says what is wrong with the framing
  };
  struct Step {
    State state = State::kMore;
    size_t consumed = 0;
  };
  // Appends what `bytes` hold of the body. Bytes after the body are not consumed.
  Step Feed(std::string_view bytes);

  size_t size() const;     // of the body so far
  std::string TakeBody();  // leaves it empty
  const std::string& error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergola::gateway
