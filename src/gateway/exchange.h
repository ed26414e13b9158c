// One request on its way through the routes: answers exactly once, by the deadline at the latest.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/deadline_timer.h"
#include "gateway/dialect.h"
#include "gateway/http_types.h"
#include "gateway/key_usage.h"
#include "gateway/route_table.h"

namespace pergola::gateway {

// Counts exchanges, so that their owner can wait for the last. Thread-safe.
class InFlight {
 public:
  void Enter();
  void Leave();
  void WaitForNone();
  bool none();

 private:
  std::mutex mutex_;  // guards count_
  std::condition_variable none_;
  int64_t count_ = 0;
};

// Thread-safe: the first of Send, Fail and the deadline answers, the others do nothing. Owned by
// whoever works on the request; what is given to the constructor must outlive it.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Parts {
    InFlight* in_flight = nullptr;
    DeadlineTimer* timer = nullptr;
  };

  Exchange(const Parts& parts, HttpRequest http_request, HttpRespond respond, const Route* route);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  HttpRequest& request() { return request_; }
  const Route* route() const { return route_; }  // null: no such route
  Envelope envelope() const { return envelope_; }
  void set_envelope(Envelope envelope) { envelope_ = envelope; }
  // The request's own, which the server watches, unless StartDeadline set another.
  service::Clock::time_point deadline() const { return request_.deadline; }
  bool expired() const { return service::Clock::now() >= deadline(); }

  // The body, set aside to be found again with its answer; empty: it is not.
  void set_repeated_body(std::string body) { repeated_body_ = std::move(body); }
  std::string take_repeated_body() { return std::exchange(repeated_body_, {}); }

  // When its work began, if it has.
  void NoteWork() { work_began_ = service::Clock::now(); }
  service::Clock::time_point work_began() const { return work_began_; }

  // At `deadline` the request is cancelled and answered with `failure`. Before the work begins.
  void StartDeadline(service::Clock::time_point deadline, Failure failure);

  void Send(HttpResponse response);
  void SendJson(std::string body);
  // Calls `parts` for the first MiB at once, on this thread; what is left becomes next_chunk.
  void SendParts(AnswerParts parts, std::vector<HttpHeader> headers = {});
  void Fail(const Failure& failure);

  // Given back when whoever works on it answers (a long answer: when it is made to its end), or
  // else with the last owner: a deadline that passes ends no work. Once, before the work begins.
  void HoldKey(std::shared_ptr<KeyUsage> key);

 private:
  bool Claim();
  void Expire(const Failure& failure);
  HttpResponse ResponseOf(const Failure& failure) const;
  // Calls respond_ and lets go of it.
  void Respond(HttpResponse response);
  void ReleaseKey();
  void NoteRendering(service::Clock::time_point began);

  const Parts parts_;
  HttpRequest request_;
  HttpRespond respond_;
  const Route* route_;
  service::Clock::time_point work_began_;  // of whoever works on it
  std::string repeated_body_;              // likewise
  std::atomic<Envelope> envelope_;
  std::mutex mutex_;  // guards what follows
  std::optional<DeadlineTimer::Ticket> ticket_;
  std::shared_ptr<KeyUsage> key_;  // second owner: the keys of the server
  std::atomic<bool> answered_ = false;
};

}  // namespace pergola::gateway
