#include "gateway/http_body.h"

#include <algorithm>

namespace pergola::gateway {
namespace {

constexpr size_t kTrustFromBytes = 64 * 1024;
constexpr uint64_t kFramingBytes = 64 * 1024;
constexpr uint64_t kFramingBytesPerBodyByte = 16;

bool IsControl(char c) { return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f; }

}  // namespace

BodyDecoder::BodyDecoder(const HttpHead& head, uint64_t max_body_bytes)
    : max_body_bytes_(max_body_bytes),
      chunked_(head.chunked),
      left_(head.content_length.value_or(0)) {}

BodyDecoder::State BodyDecoder::Bad(const char* what) {
  error_ = std::string("the chunked body is broken: ") + what;
  return State::kBad;
}

BodyDecoder::Step BodyDecoder::Feed(std::string_view bytes) {
  Step step;
  if (!chunked_) {
    if (body_.size() + left_ > max_body_bytes_ || left_ > max_body_bytes_) {
      step.state = State::kTooLarge;
      return step;
    }
    step.consumed = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
    // Whole at once, but not on the word of a peer that has sent next to nothing.
    if (body_.size() >= kTrustFromBytes) body_.reserve(body_.size() + static_cast<size_t>(left_));
    body_.append(bytes, 0, step.consumed);
    left_ -= step.consumed;
    if (left_ == 0) step.state = State::kDone;
    return step;
  }
  while (step.state == State::kMore && step.consumed < bytes.size()) {
    if (at_ == At::kData) {
      const size_t here =
          static_cast<size_t>(std::min<uint64_t>(left_, bytes.size() - step.consumed));
      body_.append(bytes, step.consumed, here);
      left_ -= here;
      step.consumed += here;
      if (left_ == 0) at_ = At::kDataReturn;
      continue;
    }
    step.state = FeedByte(bytes[step.consumed++]);
    if (++framing_bytes_ > kFramingBytes + kFramingBytesPerBodyByte * body_.size() &&
        step.state == State::kMore) {
      step.state = Bad("extensions and trailers are out of proportion");
    }
  }
  return step;
}

BodyDecoder::State BodyDecoder::FeedByte(char c) {
  switch (at_) {
    case At::kFirstSizeDigit:
    case At::kSizeDigit:
      return FeedSizeByte(c);
    case At::kExtension:
      if (c == '\r') {
        at_ = At::kSizeLineFeed;
      } else if (IsControl(c)) {
        return Bad("a control byte in a chunk extension");
      }
      return State::kMore;
    case At::kSizeLineFeed:
      if (c != '\n') return Bad("CR without LF after a chunk size");
      at_ = left_ > 0 ? At::kData : At::kTrailerStart;
      return State::kMore;
    case At::kDataReturn:
      if (c != '\r') return Bad("a chunk is longer than its size says");
      at_ = At::kDataLineFeed;
      return State::kMore;
    case At::kDataLineFeed:
      if (c != '\n') return Bad("CR without LF after a chunk");
      at_ = At::kFirstSizeDigit;
      return State::kMore;
    case At::kData:
    case At::kEnd:
      return State::kMore;
    default:
      return FeedTrailerByte(c);
  }
}

BodyDecoder::State BodyDecoder::FeedSizeByte(char c) {
  const int digit = HexValue(c);
  if (digit >= 0) {
    at_ = At::kSizeDigit;
    left_ = left_ * 16 + static_cast<uint64_t>(digit);
    // Checked at each digit, so it cannot wrap.
    return left_ > max_body_bytes_ - body_.size() ? State::kTooLarge : State::kMore;
  }
  if (at_ == At::kFirstSizeDigit) return Bad("a chunk size is missing");
  if (c == '\r') {
    at_ = At::kSizeLineFeed;
  } else if (c == ';') {
    at_ = At::kExtension;
  } else {
    return Bad("a chunk size is not a hexadecimal number");
  }
  return State::kMore;
}

BodyDecoder::State BodyDecoder::FeedTrailerByte(char c) {
  switch (at_) {
    case At::kTrailerStart:
      if (c == '\r') {
        at_ = At::kLastLineFeed;
        return State::kMore;
      }
      if (!IsTokenChar(c)) return Bad("a trailer line has no field name");
      at_ = At::kTrailerName;
      return State::kMore;
    case At::kTrailerName:
      if (c == ':') {
        at_ = At::kTrailerValue;
      } else if (!IsTokenChar(c)) {
        return Bad("a trailer line is not 'name: value'");
      }
      return State::kMore;
    case At::kTrailerValue:
      if (c == '\r') {
        at_ = At::kTrailerLineFeed;
      } else if (IsControl(c)) {
        return Bad("a control byte in a trailer");
      }
      return State::kMore;
    case At::kTrailerLineFeed:
      if (c != '\n') return Bad("CR without LF in a trailer");
      at_ = At::kTrailerStart;
      return State::kMore;
    default:  // kLastLineFeed
      if (c != '\n') return Bad("CR without LF at the end");
      at_ = At::kEnd;
      return State::kDone;
  }
}

}  // namespace pergola::gateway
