#include "gateway/http_connection.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "gateway/connection_set.h"
#include "gateway/gzip.h"
#include "gateway/http_body.h"
#include "gateway/http_exchange.h"
#include "gateway/http_head.h"
#include "gateway/http_stream.h"
#include "gateway/request_id.h"
#include "gateway/request_trace.h"
#include "gateway/response_body.h"
#include "gateway/response_head.h"

// g++ 12 takes Asio's recycled coroutine frames for a mismatch of new and delete.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace pergola::gateway {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using service::Clock;

constexpr size_t kHeadReadBytes = 8 * 1024;
constexpr size_t kBodyReadBytes = 64 * 1024;
constexpr size_t kReadAheadBytes = 64 * 1024;  // pipelined bytes kept while a request is in work
constexpr uint64_t kDiscardBytes = 64 * 1024;  // a refused body up to this is read off, not the end

// Deflated on the network thread: some 150 us at most.
constexpr size_t kGzipInlineBytes = 16 * 1024;
constexpr int kClientWentAway = 499;  // in the log only

Clock::time_point After(Clock::time_point start, std::chrono::milliseconds duration) {
  return duration.count() == 0 ? Clock::time_point::max() : start + duration;
}

// Thread-confined to its network thread. Owned by its coroutine and by callbacks that are under
// way.
class HttpConnection : public ManagedConnection,
                       public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<ConnectionSet> set, std::unique_ptr<HttpStream> stream,
                 std::string peer);
  ~HttpConnection() override;

  void Start();
  void Close() override;
  void BeginDrain() override;

 private:
  // What came of waiting for a part of a request.
  enum class Next { kGoOn, kRefuse, kClose };  // kRefuse: answer refusal_ and close

  // What an answer needs to know of its request.
  struct Current {
    bool is_head_request = false;
    int minor_version = 1;
    bool keep_alive = false;
    bool gzip_answer = false;
    std::string allow_origin;
    Clock::time_point received;
    RequestLog log;
    std::shared_ptr<KeyUsage> key_usage;
    std::shared_ptr<RequestTrace> trace;  // the log's
    std::shared_ptr<service::CancelToken> cancel = std::make_shared<service::CancelToken>();
  };

  const HttpServerOptions& options() const { return server_->options; }
  std::string_view unread() const { return std::string_view(input_).substr(input_begin_); }
  void Consume(size_t bytes);
  void StartRead(size_t bytes);
  void ReadSome(size_t bytes);
  void Received(std::string_view bytes);  // none: the peer sends no more
  void BecomeBusy();
  void BecomeQuiet();
  void EnterIdle();  // quiet, and in the line of those that may be closed for new ones
  void LeaveIdle();
  Next Refuse(HttpResponse response);
  bool draining() const { return server_->draining; }
  Clock::time_point RequestDeadline(Clock::time_point until) const;
  Clock::time_point BodyDeadline(Clock::time_point start, uint64_t bytes) const;

  awaitable<void> Run();
  awaitable<bool> Handshake();
  awaitable<bool> ServeOne();
  awaitable<Next> ReadHead(HttpHead* head);
  awaitable<bool> ServeRequest(HttpHead head);
  awaitable<bool> AnswerEarly(const HttpHead& head, HttpResponse answer);
  awaitable<Next> ReadBody(const HttpHead& head, HttpExchange* exchange, std::string* body);
  awaitable<Next> InflateBody(const std::string& path, HttpExchange* exchange, std::string* body);
  awaitable<Next> AwaitHandler(HttpHead head, std::string body, std::chrono::milliseconds timeout,
                               std::shared_ptr<HttpExchange> exchange, HttpResponse* response);
  void Handle(HttpRequest request, HttpRespond respond);
  awaitable<bool> Send(HttpResponse response);
  awaitable<bool> SendWhole(HttpResponse response, ResponseFrame frame);
  awaitable<bool> SendStream(HttpResponse response, ResponseFrame frame);
  awaitable<bool> Write(std::string_view first, std::string_view second);
  awaitable<bool> OnWorker(std::function<void()> work);
  awaitable<bool> Discard(uint64_t bytes);
  awaitable<void> Linger();
  awaitable<bool> HasReceived();
  awaitable<bool> More(size_t read_bytes, Clock::time_point until);
  awaitable<void> Sleep(Clock::time_point until);
  void Log(int status);

  const std::shared_ptr<ConnectionSet> set_;  // second owner: the network thread
  const std::shared_ptr<ServerShared> server_;
  const std::unique_ptr<HttpStream> stream_;
  const std::string peer_;
  asio::steady_timer event_;  // cancelled to wake the coroutine

  std::string input_;  // received, not yet consumed from input_begin_ on
  size_t input_begin_ = 0;
  std::string read_area_;
  uint64_t received_bytes_ = 0;
  bool reading_ = false;
  bool ended_ = false;  // the peer sends no more
  bool closed_ = false;
  bool woken_ = false;
  bool linger_ = false;
  int64_t requests_ = 0;  // heads read
  bool idle_ = false;
  bool busy_ = false;
  ConnectionSet::IdlePlace idle_place_;
  HttpResponse refusal_;
  Current current_;
};

HttpConnection::HttpConnection(std::shared_ptr<ConnectionSet> set,
                               std::unique_ptr<HttpStream> stream, std::string peer)
    : set_(std::move(set)),
      server_(set_->server()),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      event_(set_->io()) {
  set_->Add(this);
}

HttpConnection::~HttpConnection() {
  BecomeQuiet();
  LeaveIdle();
  set_->Remove(this);
}

void HttpConnection::Start() {
  EnterIdle();
  // An exception (out of memory) ends this connection alone.
  asio::co_spawn(
      set_->io(), [self = shared_from_this()] { return self->Run(); },
      [self = shared_from_this()](std::exception_ptr) { self->Close(); });
}

void HttpConnection::Close() {
  if (closed_) return;
  closed_ = true;
  LeaveIdle();
  stream_->Close();
  event_.cancel();
}

void HttpConnection::BeginDrain() {
  if (idle_) BecomeBusy();
  woken_ = true;
  event_.cancel();
}

void HttpConnection::Consume(size_t bytes) {
  input_begin_ += bytes;
  if (input_begin_ < input_.size()) return;
  input_begin_ = 0;
  input_.clear();
  if (input_.capacity() > kReadAheadBytes) input_.shrink_to_fit();
}

void HttpConnection::StartRead(size_t bytes) {
  if (reading_ || ended_ || closed_) return;
  if (input_begin_ > 0) {
    input_.erase(0, input_begin_);
    input_begin_ = 0;
  }
  reading_ = true;
  if (bytes != kHeadReadBytes || !unread().empty()) return ReadSome(bytes);
  // Most connections rest most of the time: ten thousand of them should not hold 80 MB for it.
  read_area_ = std::string();
  stream_->AwaitReadable([self = shared_from_this(), bytes](bool ok, size_t) {
    if (!ok || self->closed_) return self->Received({});
    const std::span<char> area = self->set_->read_area();
    const std::optional<size_t> received = self->stream_->ReadNow(area);
    if (!received) return self->ReadSome(bytes);
    self->Received({area.data(), *received});
  });
}

void HttpConnection::ReadSome(size_t bytes) {
  if (read_area_.size() != bytes) read_area_ = std::string(bytes, '\0');
  stream_->ReadSome(read_area_, [self = shared_from_this()](bool ok, size_t received) {
    self->Received({self->read_area_.data(), ok ? received : 0});
  });
}

void HttpConnection::Received(std::string_view bytes) {
  reading_ = false;
  input_.append(bytes);
  received_bytes_ += bytes.size();
  ended_ = bytes.empty();
  event_.cancel();
}

void HttpConnection::BecomeBusy() {
  LeaveIdle();
  if (busy_) return;
  busy_ = true;
  server_->BecameBusy();
}

void HttpConnection::BecomeQuiet() {
  if (!busy_) return;
  busy_ = false;
  server_->BecameQuiet();
}

void HttpConnection::EnterIdle() {
  if (draining() && busy_) return;  // a drain waits until it is closed
  BecomeQuiet();
  if (idle_ || closed_) return;
  idle_ = true;
  idle_place_ = set_->EnterIdle(this);
}

void HttpConnection::LeaveIdle() {
  if (!idle_) return;
  idle_ = false;
  set_->LeaveIdle(idle_place_);
}

HttpConnection::Next HttpConnection::Refuse(HttpResponse response) {
  refusal_ = std::move(response);
  return Next::kRefuse;
}

// `until`, or when a drain gives up what is not whole.
Clock::time_point HttpConnection::RequestDeadline(Clock::time_point until) const {
  return draining() ? std::min(until, server_->drain_requests_until.load()) : until;
}

Clock::time_point HttpConnection::BodyDeadline(Clock::time_point start, uint64_t bytes) const {
  const auto earned = std::chrono::milliseconds(
      1000 * bytes / static_cast<uint64_t>(options().body_bytes_per_second));
  return options().body_deadline.count() == 0 ? Clock::time_point::max()
                                              : start + options().body_deadline + earned;
}

awaitable<void> HttpConnection::Run() {
  bool go_on = co_await Handshake();
  while (go_on) {
    go_on = co_await ServeOne();
  }
  EnterIdle();
  if (!closed_) co_await Linger();
  Close();
}

awaitable<bool> HttpConnection::Handshake() {
  const Clock::time_point latest = After(Clock::now(), options().header_deadline);
  auto done = std::make_shared<std::pair<bool, bool>>(false, false);  // finished, ok
  stream_->Handshake([self = shared_from_this(), done](bool ok, size_t) {
    *done = {true, ok};
    self->event_.cancel();
  });
  while (!done->first) {
    const Clock::time_point until = RequestDeadline(latest);
    if (Clock::now() >= until) Close();
    co_await Sleep(closed_ ? Clock::time_point::max() : until);
  }
  co_return done->second && !closed_;
}

awaitable<bool> HttpConnection::ServeOne() {
  EnterIdle();
  HttpHead head;
  const Next next = co_await ReadHead(&head);
  if (next == Next::kClose) co_return false;
  BecomeBusy();
  ++requests_;
  ++server_->requests_in_work;
  current_ = Current{};
  current_.received = Clock::now();
  current_.minor_version = head.minor_version;
  current_.is_head_request = head.method == "HEAD";
  current_.log.method = head.method;
  current_.log.path = head.path;
  current_.log.peer = peer_;
  current_.log.request_id = RequestIdFor(head.header("x-request-id"));
  auto trace = service::ParseTraceParent(head.header("traceparent").value_or(""));
  if (trace) trace->state = service::TraceStateOf(head.header("tracestate").value_or(""));
  current_.trace = std::make_shared<RequestTrace>(trace.value_or(service::TraceContext{}),
                                                  options().sample_traces);
  current_.log.trace = current_.trace;
  bool go_on = false;
  if (next == Next::kRefuse) {
    linger_ = true;
    co_await Send(std::move(refusal_));
  } else {
    current_.keep_alive = head.keep_alive && (options().keepalive_max_requests == 0 ||
                                              requests_ < options().keepalive_max_requests);
    const bool wants_more = head.keep_alive;
    go_on = co_await ServeRequest(std::move(head));
    // It may have sent the next request already.
    linger_ = linger_ || (wants_more && !current_.keep_alive) || !unread().empty();
  }
  --server_->requests_in_work;
  co_return go_on && !closed_;
}

awaitable<HttpConnection::Next> HttpConnection::ReadHead(HttpHead* head) {
  const size_t limit = static_cast<size_t>(options().header_limit_bytes);
  const bool first = requests_ == 0;
  const Clock::time_point began = Clock::now();
  Clock::time_point until =
      After(began, first ? options().header_deadline : options().keepalive_timeout);
  bool begun = false;
  HeadScanner scanner;
  while (true) {
    if (!begun && !unread().empty()) {
      begun = true;
      if (!first) until = After(Clock::now(), options().header_deadline);
    }
    const HeadScanner::State state = scanner.Scan(unread());
    if (state == HeadScanner::State::kBad) {
      co_return Refuse(server_->gate.Error("", 400, scanner.error()));
    }
    const bool complete = state == HeadScanner::State::kComplete;
    if ((complete ? scanner.end() : unread().size()) - scanner.begin() > limit) {
      co_return Refuse(server_->gate.HeadTooLarge());
    }
    if (complete) break;
    if (closed_ || ended_) co_return Next::kClose;
    if (!begun && draining()) {
      const bool expected = co_await HasReceived();
      if (!expected && !first) co_return Next::kClose;
      if (!unread().empty()) continue;
      // Who has just connected is about to ask.
      until = std::min(until, began + server_->drain_grace.load());
    }
    const bool in_time = co_await More(kHeadReadBytes, RequestDeadline(until));
    if (in_time) continue;
    if (!begun) co_return Next::kClose;
    co_return Refuse(Clock::now() < until ? server_->gate.Stopping("")
                                          : server_->gate.HeadTooSlow());
  }
  const std::optional<HttpError> error = ParseHead(scanner.head(unread()), head);
  Consume(scanner.end());
  if (error) {
    co_return Refuse(server_->gate.Error(head->path, error->status, error->message));
  }
  co_return Next::kGoOn;
}

awaitable<bool> HttpConnection::ServeRequest(HttpHead head) {
  GateDecision decision = server_->gate.Decide(head);
  current_.gzip_answer = decision.gzip_answer;
  current_.allow_origin = decision.allow_origin;
  current_.log.route = decision.route.route;
  current_.log.api_key = decision.key.number;
  current_.key_usage = std::move(decision.key.usage);
  if (decision.answer) {
    const bool early = co_await AnswerEarly(head, std::move(*decision.answer));
    co_return early;
  }
  auto exchange = std::make_shared<HttpExchange>(server_->body_budget);
  const std::string path = head.path;
  std::string body;
  Next next = Next::kGoOn;
  if (head.has_body()) next = co_await ReadBody(head, exchange.get(), &body);
  if (next == Next::kGoOn && decision.gunzip) {
    next = co_await InflateBody(path, exchange.get(), &body);
    // The framing is intact: the connection can go on.
    if (next == Next::kRefuse) {
      const bool sent = co_await Send(std::move(refusal_));
      co_return sent&& current_.keep_alive;
    }
  }
  HttpResponse response;
  if (next == Next::kGoOn) {
    next = co_await AwaitHandler(std::move(head), std::move(body), decision.timeout,
                                 std::move(exchange), &response);
  }
  if (next == Next::kClose) {
    Log(kClientWentAway);
    co_return false;
  }
  if (next == Next::kRefuse) {
    linger_ = true;
    current_.keep_alive = false;
    response = std::move(refusal_);
  }
  const bool sent = co_await Send(std::move(response));
  co_return sent&& current_.keep_alive;
}

// The body was not read: a small one is read off afterwards, else the connection ends.
awaitable<bool> HttpConnection::AnswerEarly(const HttpHead& head, HttpResponse answer) {
  const uint64_t length = head.content_length.value_or(0);
  if (head.has_body() && (head.chunked || head.expect_continue || length > kDiscardBytes)) {
    current_.keep_alive = false;
    linger_ = true;
  }
  const bool sent = co_await Send(std::move(answer));
  if (!sent) co_return false;
  if (!current_.keep_alive) {
    linger_ = linger_ || length > 0;
    co_return false;
  }
  const bool discarded = co_await Discard(length);
  co_return discarded;
}

awaitable<HttpConnection::Next> HttpConnection::ReadBody(const HttpHead& head,
                                                         HttpExchange* exchange,
                                                         std::string* body) {
  BodyDecoder decoder(head, static_cast<uint64_t>(options().max_body_bytes));
  const Clock::time_point start = Clock::now();
  uint64_t received = 0;
  if (head.expect_continue && unread().empty()) {
    const bool sent = co_await Write("HTTP/1.1 100 Continue\r\n\r\n", "");
    if (!sent) co_return Next::kClose;
  }
  while (true) {
    const BodyDecoder::Step step = decoder.Feed(unread());
    Consume(step.consumed);
    received += step.consumed;
    if (step.state == BodyDecoder::State::kTooLarge) {
      co_return Refuse(server_->gate.BodyTooLarge(head.path));
    }
    if (step.state == BodyDecoder::State::kBad) {
      co_return Refuse(server_->gate.Error(head.path, 400, decoder.error()));
    }
    if (!exchange->body_bytes.GrowTo(decoder.size())) {
      // At once, not when the refusal is sent: else all who send now are refused, not only the
      // last.
      exchange->body_bytes.Release();
      co_return Refuse(server_->gate.Error(
          head.path, 503,
          "the limit of " + std::to_string(options().body_budget_bytes) +
              " bytes for all request bodies together is reached; try again later"));
    }
    if (step.state == BodyDecoder::State::kDone) break;
    if (closed_ || ended_) co_return Next::kClose;
    const Clock::time_point until = BodyDeadline(start, received);
    const bool in_time = co_await More(kBodyReadBytes, RequestDeadline(until));
    if (in_time) continue;
    co_return Refuse(Clock::now() < until ? server_->gate.Stopping(head.path)
                                          : server_->gate.BodyTooSlow(head.path));
  }
  current_.log.received_bytes = received;
  *body = decoder.TakeBody();
  co_return Next::kGoOn;
}

awaitable<HttpConnection::Next> HttpConnection::InflateBody(const std::string& path,
                                                            HttpExchange* exchange,
                                                            std::string* body) {
  Result<std::string> plain = InternalError("not run");
  const bool ran = co_await OnWorker([&plain, body, this] {
    plain = Gunzip(*body, static_cast<size_t>(options().max_body_bytes));
  });
  if (!ran) co_return Next::kClose;
  if (!plain.ok()) {
    co_return Refuse(plain.status().code() == StatusCode::kResourceExhausted
                         ? server_->gate.BodyTooLarge(path)
                         : server_->gate.Error(path, 400, plain.status().message()));
  }
  if (!exchange->body_bytes.GrowTo(plain->size())) {
    co_return Refuse(server_->gate.Error(path, 503, "too many request bodies are held"));
  }
  *body = std::move(*plain);
  co_return Next::kGoOn;
}

awaitable<HttpConnection::Next> HttpConnection::AwaitHandler(HttpHead head, std::string body,
                                                             std::chrono::milliseconds timeout,
                                                             std::shared_ptr<HttpExchange> exchange,
                                                             HttpResponse* response) {
  const std::string path = head.path;
  const Clock::time_point deadline = After(Clock::now(), timeout);
  HttpRequest request;
  request.method = std::move(head.method);
  request.path = std::move(head.path);
  request.raw_target = std::move(head.target);
  request.query = std::move(head.query);
  request.headers = std::move(head.headers);
  request.body = std::move(body);
  request.request_id = current_.log.request_id;
  request.received = current_.received = Clock::now();
  request.deadline = deadline;
  request.api_key = current_.log.api_key;
  request.key_usage = std::move(current_.key_usage);
  request.trace = current_.trace;
  request.cancel = current_.cancel;
  exchange->post = [mailbox = set_->mailbox()](std::function<void()> work) {
    mailbox->Post(std::move(work));
  };
  exchange->wake = [this] { event_.cancel(); };
  Handle(std::move(request), MakeRespond(exchange));
  Next next = Next::kGoOn;
  while (!exchange->response) {
    if (closed_ || ended_) {
      next = Next::kClose;
      break;
    }
    if (exchange->dropped) {
      exchange->response =
          server_->gate.Error(path, 500, "the request was dropped without an answer");
      break;
    }
    if (Clock::now() >= deadline) {
      exchange->response = server_->gate.Error(
          path, 504,
          "the request was not answered within " + std::to_string(timeout.count()) + " ms");
      break;
    }
    if (unread().size() < kReadAheadBytes) StartRead(kHeadReadBytes);
    co_await Sleep(deadline);
  }
  exchange->wake = nullptr;
  if (next == Next::kClose || exchange->response->status == 504) current_.cancel->Cancel();
  if (next == Next::kGoOn) *response = std::move(*exchange->response);
  co_return next;
}

// Of a lone client a request has this thread for itself: nobody else's would wait for it, or be
// computed together with it.
void HttpConnection::Handle(HttpRequest request, HttpRespond respond) {
  HttpHandler& handler = *server_->handler;
  request.may_block = !request.body.empty() && server_->SendsAlone(this, request.received) &&
                      server_->requests_in_work == 1 && set_->loop().CanLend();
  if (!request.may_block) return handler.Handle(std::move(request), std::move(respond));
  set_->loop().Lend(
      [&handler, request = std::move(request), respond = std::move(respond)]() mutable {
        try {
          handler.Handle(std::move(request), std::move(respond));
        } catch (...) {  // out of memory: ends this request alone, which is seen as dropped
        }
      });
}

// Runs `work` on a worker thread and waits for its end, whatever happens. False: closed, not run.
awaitable<bool> HttpConnection::OnWorker(std::function<void()> work) {
  if (closed_) co_return false;
  auto done = std::make_shared<bool>(false);
  // The connection must not die on the worker's thread: `self` goes back with the note.
  server_->workers->Run(
      [self = shared_from_this(), mailbox = set_->mailbox(), done, &work]() mutable {
        work();
        mailbox->Post([self = std::move(self), done] {
          *done = true;
          self->event_.cancel();
        });
      });
  while (!*done) {
    co_await Sleep(Clock::time_point::max());
  }
  co_return !closed_;
}

awaitable<bool> HttpConnection::Discard(uint64_t bytes) {
  const Clock::time_point start = Clock::now();
  const uint64_t length = bytes;
  while (true) {
    const size_t here = static_cast<size_t>(std::min<uint64_t>(bytes, unread().size()));
    Consume(here);
    bytes -= here;
    if (bytes == 0) co_return true;
    if (closed_ || ended_) co_return false;
    const Clock::time_point until = RequestDeadline(BodyDeadline(start, length - bytes));
    const bool in_time = co_await More(kHeadReadBytes, until);
    if (!in_time) co_return false;
  }
}

// A close with unread bytes resets the connection, and the peer might lose the answer: read on for
// a while.
awaitable<void> HttpConnection::Linger() {
  stream_->ShutdownSend();
  if (!linger_) co_return;
  Clock::time_point until = Clock::now() + options().linger_timeout;
  bool in_haste = false;
  while (!ended_ && !closed_) {
    if (draining() && !in_haste) {
      in_haste = true;
      until = std::min(until, Clock::now() + server_->drain_grace.load());
    }
    Consume(unread().size());
    const bool in_time = co_await More(kBodyReadBytes, until);
    if (!in_time) co_return;
  }
}

// Whether bytes have come that are not in unread() yet, or by now are.
awaitable<bool> HttpConnection::HasReceived() {
  StartRead(kHeadReadBytes);
  // Its callback first, if it found some.
  co_await asio::post(set_->io(), asio::use_awaitable);
  co_return !closed_ && (!unread().empty() || stream_->HasUnread());
}

// Waits for bytes, the end of the stream, Close or BeginDrain; false when `until` came first or had
// passed.
awaitable<bool> HttpConnection::More(size_t read_bytes, Clock::time_point until) {
  const uint64_t before = received_bytes_;
  StartRead(read_bytes);
  while (received_bytes_ == before && !ended_ && !closed_ && !woken_) {
    if (Clock::now() >= until) co_return false;
    co_await Sleep(until);
  }
  woken_ = false;
  co_return Clock::now() < until;
}

awaitable<void> HttpConnection::Sleep(Clock::time_point until) {
  event_.expires_at(until);
  co_await event_.async_wait(asio::as_tuple(asio::use_awaitable));
}

awaitable<bool> HttpConnection::Send(HttpResponse response) {
  if (draining()) current_.keep_alive = false;
  const bool compressible = IsCompressible(response);
  ResponseFrame frame;
  frame.minor_version = current_.minor_version;
  frame.gzip = compressible && current_.gzip_answer;
  frame.varies_by_coding = compressible;
  frame.request_id = current_.log.request_id;
  frame.allow_origin = current_.allow_origin;
  const int status = response.status;
  bool sent = false;
  if (response.next_chunk && !HasNoBody(status)) {
    sent = co_await SendStream(std::move(response), frame);
  } else {
    sent = co_await SendWhole(std::move(response), frame);
  }
  if (!sent) current_.cancel->Cancel();
  Log(sent ? status : kClientWentAway);
  co_return sent;
}

awaitable<bool> HttpConnection::SendWhole(HttpResponse response, ResponseFrame frame) {
  if (frame.gzip && response.body.size() > kGzipInlineBytes) {
    const bool ran = co_await OnWorker([&response] { response.body = Gzip(response.body); });
    if (!ran) co_return false;
  } else if (frame.gzip) {
    response.body = Gzip(response.body);
  }
  if (HasNoBody(response.status)) {
    frame.framing = BodyFraming::kNone;
    response.body.clear();
  }
  frame.length = response.body.size();
  frame.keep_alive = current_.keep_alive;
  const std::string head = ResponseHead(response, frame);
  if (current_.is_head_request) response.body.clear();
  current_.log.sent_bytes = response.body.size();
  const bool sent = co_await Write(head, response.body);
  co_return sent;
}

awaitable<bool> HttpConnection::SendStream(HttpResponse response, ResponseFrame frame) {
  const bool chunked = current_.minor_version > 0;
  if (!chunked) current_.keep_alive = false;
  frame.framing = chunked ? BodyFraming::kChunked : BodyFraming::kClose;
  frame.keep_alive = current_.keep_alive;
  std::string head = ResponseHead(response, frame);
  if (current_.is_head_request) {
    const bool sent = co_await Write(head, "");
    co_return sent;
  }
  std::unique_ptr<GzipWriter> gzip = frame.gzip ? std::make_unique<GzipWriter>() : nullptr;
  std::string plain = std::move(response.body);
  std::string piece;
  for (bool more = true; more;) {
    const bool ran = co_await OnWorker([&] {
      more = response.next_chunk(&plain);
      piece.clear();
      if (gzip != nullptr) {
        gzip->Append(plain, !more, &piece);
        plain.clear();
      } else {
        piece.swap(plain);
      }
    });
    if (unread().size() < kReadAheadBytes) StartRead(kHeadReadBytes);
    if (!ran || ended_) co_return false;  // ended_: the client went away
    if (piece.empty() && more) continue;
    current_.log.sent_bytes += piece.size();
    if (chunked) FrameChunk(!more, &head, &piece);
    const bool sent = co_await Write(head, piece);
    if (!sent) co_return false;
    head.clear();
  }
  co_return true;
}

// False: the peer is gone or too slow; the connection is closed then.
awaitable<bool> HttpConnection::Write(std::string_view first, std::string_view second) {
  struct Outcome {
    bool done = false;
    bool ok = false;
    size_t bytes = 0;
  };
  const auto outcome = std::make_shared<Outcome>();
  const Clock::time_point start = Clock::now();
  uint64_t written = 0;
  while (!first.empty() || !second.empty()) {
    if (closed_) co_return false;
    *outcome = Outcome{};
    stream_->WriteSome(first, second, [self = shared_from_this(), outcome](bool ok, size_t bytes) {
      *outcome = {true, ok, bytes};
      self->event_.cancel();
    });
    const Clock::time_point until = BodyDeadline(start, written);
    while (!outcome->done) {  // after Close as well: the bytes are ours to keep until then
      if (Clock::now() >= until) Close();
      co_await Sleep(closed_ ? Clock::time_point::max() : until);
    }
    if (!outcome->ok) {
      Close();
      co_return false;
    }
    written += outcome->bytes;
    const size_t of_first = std::min(outcome->bytes, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(outcome->bytes - of_first);
  }
  co_return true;
}

void HttpConnection::Log(int status) {
  if (!options().observer) return;
  current_.log.status = status;
  current_.log.duration = Clock::now() - current_.received;
  options().observer(current_.log);
}

}  // namespace

void StartConnection(std::shared_ptr<ConnectionSet> set, std::unique_ptr<HttpStream> stream,
                     std::string peer) {
  std::make_shared<HttpConnection>(std::move(set), std::move(stream), std::move(peer))->Start();
}

}  // namespace pergola::gateway
