// Any bytes as a request head and, if it has a body, as that body, whole and in pieces: the outcome
// must be the same, and what is accepted must be unambiguous.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/http_body.h"
#include "gateway/http_head.h"

namespace {

using pergola::gateway::BodyDecoder;
using pergola::gateway::HeadScanner;
using pergola::gateway::HttpHead;

constexpr uint64_t kMaxBodyBytes = 4096;

void Require(bool holds) {
  if (!holds) std::abort();
}

struct BodyOutcome {
  BodyDecoder::State state = BodyDecoder::State::kMore;
  size_t consumed = 0;
  std::string body;
};

BodyOutcome Decode(const HttpHead& head, std::string_view bytes, size_t piece) {
  BodyDecoder decoder(head, kMaxBodyBytes);
  BodyOutcome outcome;
  do {
    const std::string_view next = bytes.substr(outcome.consumed, piece);
    const BodyDecoder::Step step = decoder.Feed(next);
    outcome.state = step.state;
    outcome.consumed += step.consumed;
  } while (outcome.state == BodyDecoder::State::kMore && outcome.consumed < bytes.size());
  Require(decoder.size() <= kMaxBodyBytes);
  outcome.body = decoder.TakeBody();
  return outcome;
}

void CheckBody(const HttpHead& head, std::string_view bytes) {
  const BodyOutcome whole = Decode(head, bytes, bytes.size());
  const BodyOutcome pieces = Decode(head, bytes, 1);
  Require(whole.state == pieces.state);
  if (whole.state == BodyDecoder::State::kDone) {
    Require(whole.consumed == pieces.consumed && whole.body == pieces.body);
    Require(head.chunked || whole.body.size() == head.content_length.value_or(0));
  }
}

int CountOf(const HttpHead& head, std::string_view name) {
  int count = 0;
  for (const auto& header : head.headers) count += header.name == name;
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  HeadScanner whole;
  const HeadScanner::State state = whole.Scan(bytes);
  HeadScanner pieces;
  HeadScanner::State dribbled = HeadScanner::State::kMore;
  for (size_t end = 1; end <= size && dribbled == HeadScanner::State::kMore; ++end) {
    dribbled = pieces.Scan(bytes.substr(0, end));
  }
  Require(state == dribbled);
  if (state != HeadScanner::State::kComplete) return 0;
  Require(whole.end() == pieces.end() && whole.begin() == pieces.begin());

  HttpHead head;
  if (const auto error = pergola::gateway::ParseHead(whole.head(bytes), &head)) {
    Require(error->status >= 400 && error->message.size() < 300);
    for (const char c : error->message) Require(c >= 0x20 && c < 0x7f);
    return 0;
  }
  Require(!head.method.empty() && !head.path.empty());
  Require(CountOf(head, "host") + (head.minor_version == 0 ? 1 : 0) >= 1);
  Require(CountOf(head, "content-length") + CountOf(head, "transfer-encoding") <= 1);
  Require(!(head.chunked && head.content_length));
  for (const auto& header : head.headers) {
    Require(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
  if (head.has_body()) CheckBody(head, bytes.substr(whole.end()));
  return 0;
}
