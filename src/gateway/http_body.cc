#include "gateway/http_body.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>

namespace pergola::gateway {
namespace {

namespace http = boost::beast::http;

// A chunk's size line with its extensions, or the trailer, must fit: Beast wants each whole in
// memory.
constexpr size_t kMaxFramingBytes = 16 * 1024;

}  // namespace

struct BodyDecoder::Impl {
  http::request_parser<http::string_body> parser;
  std::string error;
  bool failed = false;
  bool too_large = false;

  void Note(const boost::system::error_code& code) {
    if (!code || code == http::error::need_more) return;
    failed = true;
    too_large = code == http::error::body_limit;
    error = "the body's framing is broken: " + code.message();
  }
};

BodyDecoder::BodyDecoder(std::string_view head, uint64_t max_body_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->parser.eager(true);
  impl_->parser.header_limit(std::numeric_limits<uint32_t>::max());
  impl_->parser.body_limit(max_body_bytes);
  boost::system::error_code code;
  const size_t used = impl_->parser.put(boost::asio::buffer(head.data(), head.size()), code);
  impl_->Note(code);
  if (!impl_->failed && used != head.size()) {
    impl_->failed = true;
    impl_->error = "the head is ambiguous";
  }
}

BodyDecoder::~BodyDecoder() = default;

BodyDecoder::Step BodyDecoder::Feed(std::string_view bytes) {
  Step step;
  while (!impl_->failed && !impl_->parser.is_done() && step.consumed < bytes.size()) {
    const std::string_view rest = bytes.substr(step.consumed);
    boost::system::error_code code;
    const size_t used = impl_->parser.put(boost::asio::buffer(rest.data(), rest.size()), code);
    impl_->Note(code);
    step.consumed += used;
    if (used == 0) break;
  }
  if (!impl_->failed && !impl_->parser.is_done() &&
      bytes.size() - step.consumed > kMaxFramingBytes) {
    impl_->failed = true;
    impl_->error =
        "a chunk header or trailer is over " + std::to_string(kMaxFramingBytes) + " bytes";
  }
  if (impl_->failed) {
    step.state = impl_->too_large ? State::kTooLarge : State::kBad;
  } else if (impl_->parser.is_done()) {
    step.state = State::kDone;
  }
  return step;
}

size_t BodyDecoder::size() const { return impl_->parser.get().body().size(); }

std::string BodyDecoder::TakeBody() { return std::move(impl_->parser.get().body()); }

const std::string& BodyDecoder::error() const { return impl_->error; }

}  // namespace pergola::gateway
