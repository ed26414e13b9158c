#include "gateway/exchange.h"

#include <utility>

namespace pergola::gateway {

void InFlight::Enter() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void InFlight::Leave() {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) none_.notify_all();
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
  parts_.in_flight->Leave();
}

void Exchange::StartDeadline(service::Clock::time_point deadline, Failure failure) {
  request_.deadline = deadline;
  const std::lock_guard lock(ticket_mutex_);
  ticket_ = parts_.timer->Add(deadline, [weak = weak_from_this(), failure = std::move(failure)] {
    const std::shared_ptr<Exchange> exchange = weak.lock();
    if (exchange == nullptr) return;
    if (exchange->request_.cancel != nullptr) exchange->request_.cancel->Cancel();
    exchange->Fail(failure);
  });
}

bool Exchange::Claim() {
  if (answered_.exchange(true)) return false;
  const std::lock_guard lock(ticket_mutex_);
  if (ticket_) parts_.timer->Remove(*ticket_);
  return true;
}

void Exchange::Send(HttpResponse response) {
  if (Claim()) respond_(std::move(response));
}

void Exchange::SendJson(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  Send(std::move(response));
}

void Exchange::SendParts(AnswerParts parts, std::vector<HttpHeader> headers) {
  constexpr size_t kHeldBytes = size_t{1} << 20;
  HttpResponse response;
  response.headers = std::move(headers);
  bool more = true;
  while (more && response.body.size() < kHeldBytes) more = parts(&response.body);
  if (more) {
    response.next_chunk = [parts = std::move(parts)](std::string* chunk) mutable {
      constexpr size_t kChunkBytes = size_t{256} << 10;
      const size_t begin = chunk->size();
      while (parts(chunk)) {
        if (chunk->size() - begin >= kChunkBytes) return true;
      }
      return false;
    };
  }
  Send(std::move(response));
}

void Exchange::Fail(const Failure& failure) {
  if (!Claim()) return;
  HttpResponse response;
  const Envelope envelope = envelope_;
  response.status = HttpStatusOf(failure, envelope);
  response.body = RenderErrorBody(
      envelope, {response.status, failure.status.message(), failure.param, failure.code});
  if (response.status == 429 || response.status == 503) {
    response.headers.push_back({"retry-after", "1"});
  }
  respond_(std::move(response));
}

}  // namespace pergola::gateway
