#include "gateway/exchange.h"

#include <utility>

#include "gateway/request_trace.h"

namespace pergola::gateway {

void InFlight::Enter() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void InFlight::Leave() {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) none_.notify_all();
}

bool InFlight::none() {
  const std::lock_guard lock(mutex_);
  return count_ == 0;
}

void InFlight::WaitForNone() {
  std::unique_lock lock(mutex_);
  none_.wait(lock, [this] { return count_ == 0; });
}

Exchange::Exchange(const Parts& parts, HttpRequest http_request, HttpRespond respond,
                   const Route* route)
    : parts_(parts),
      request_(std::move(http_request)),
      respond_(std::move(respond)),
      route_(route),
      envelope_(route != nullptr ? route->envelope : EnvelopeOf(request_.path)) {
  parts_.in_flight->Enter();
}

Exchange::~Exchange() {
  // Nobody is left to answer: a bug elsewhere must not leave the client without a word.
  if (!answered_.load())
    Fail({InternalError("the request was dropped without an answer"), "", "", false});
  ReleaseKey();
  parts_.in_flight->Leave();
}

void Exchange::StartDeadline(service::Clock::time_point deadline, Failure failure) {
  request_.deadline = deadline;
  const std::lock_guard lock(mutex_);
  ticket_ = parts_.timer->Add(deadline, [weak = weak_from_this(), failure = std::move(failure)] {
    const std::shared_ptr<Exchange> exchange = weak.lock();
    if (exchange != nullptr) exchange->Expire(failure);
  });
}

void Exchange::Expire(const Failure& failure) {
  if (request_.cancel != nullptr) request_.cancel->Cancel();
  // Without the key: what was begun goes on until it sees that nobody waits.
  if (Claim()) Respond(ResponseOf(failure));
}

bool Exchange::Claim() {
  if (answered_.exchange(true)) return false;
  const std::lock_guard lock(mutex_);
  if (ticket_) parts_.timer->Remove(*ticket_);
  return true;
}

void Exchange::HoldKey(std::shared_ptr<KeyUsage> key) {
  const std::lock_guard lock(mutex_);
  key_ = std::move(key);
}

void Exchange::ReleaseKey() {
  std::shared_ptr<KeyUsage> key;
  {
    const std::lock_guard lock(mutex_);
    key.swap(key_);
  }
  if (key != nullptr) key->End();
}

void Exchange::Respond(HttpResponse response) {
  const HttpRespond respond = std::move(respond_);
  respond(std::move(response));
}

void Exchange::Send(HttpResponse response) {
  const bool more = response.next_chunk != nullptr;
  // Before the client can see the answer and send its next request.
  if (!more) ReleaseKey();
  if (Claim()) Respond(std::move(response));
}

void Exchange::SendJson(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  Send(std::move(response));
}

void Exchange::NoteRendering(service::Clock::time_point began) {
  if (request_.trace == nullptr) return;
  request_.trace->Add(Stage::kRender, began, service::Clock::now() - began);
}

void Exchange::SendParts(AnswerParts parts, std::vector<HttpHeader> headers) {
  constexpr size_t kHeldBytes = size_t{1} << 20;
  HttpResponse response;
  response.headers = std::move(headers);
  bool more = true;
  const auto began = service::Clock::now();
  while (more && response.body.size() < kHeldBytes) more = parts(&response.body);
  NoteRendering(began);
  if (more) {
    // `self`: what the parts read may go with the last exchange.
    response.next_chunk = [self = shared_from_this(),
                           parts = std::move(parts)](std::string* chunk) mutable {
      constexpr size_t kChunkBytes = size_t{256} << 10;
      const size_t begin = chunk->size();
      const auto chunk_began = service::Clock::now();
      bool left = true;
      while (left && chunk->size() - begin < kChunkBytes) left = parts(chunk);
      self->NoteRendering(chunk_began);
      if (!left) self->ReleaseKey();
      return left;
    };
  }
  Send(std::move(response));
}

HttpResponse Exchange::ResponseOf(const Failure& failure) const {
  HttpResponse response;
  const Envelope envelope = envelope_;
  response.status = HttpStatusOf(failure, envelope);
  response.body = RenderErrorBody(
      envelope, {response.status, failure.status.message(), failure.param, failure.code});
  if (response.status == 429 || response.status == 503) {
    response.headers.push_back({"retry-after", std::to_string(failure.retry_after.count())});
  }
  return response;
}

void Exchange::Fail(const Failure& failure) { Send(ResponseOf(failure)); }

}  // namespace pergola::gateway
