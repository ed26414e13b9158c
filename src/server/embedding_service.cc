#include "server/embedding_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "pergola/v1/embedding.grpc.pb.h"
#include "rpc/messages.h"
#include "rpc/status.h"
#include "server/call_deadline.h"

namespace pergola::server {
namespace {

using service::CancelToken;
using service::Clock;
using service::InferenceOutput;
using service::InferenceRequest;

// Whose request it is and how long it waits.
struct Caller {
  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<CancelToken> cancel;
  service::TraceContext trace;
};

// The span that the call's metadata name; not valid if none.
service::TraceContext TraceOf(const grpc::CallbackServerContext& call) {
  const auto value_of = [&metadata = call.client_metadata()](const char* name) {
    const auto found = metadata.find(name);
    if (found == metadata.end()) return std::string_view();
    return std::string_view(found->second.data(), found->second.size());
  };
  auto trace = service::ParseTraceParent(value_of("traceparent"));
  if (trace) trace->state = service::TraceStateOf(value_of("tracestate"));
  return trace.value_or(service::TraceContext{});
}

// `done` that also tells the observer, if there is one.
service::InferenceCallback Observed(const InferObserver* observer, const InferenceRequest& request,
                                    service::InferenceCallback done) {
  if (observer == nullptr || !*observer) return done;
  InferLog log;
  log.caller = request.trace;
  log.begin = Clock::now();
  log.sequences = static_cast<int64_t>(request.sequences.size());
  for (const Sequence& sequence : request.sequences) log.tokens += sequence.tokens();
  return [observer, log, done = std::move(done)](Result<InferenceOutput> output) mutable {
    log.length = Clock::now() - log.begin;
    log.code = output.status().code();
    if (output.ok()) {
      log.queue_time = output->queue_time;
      log.inference_time = output->inference_time;
    }
    (*observer)(log);
    done(std::move(output));
  };
}

// Hands a request to the model it names. `done` is called once, on any thread.
void Infer(const ServiceContext& context, const v1::InferRequest& message, Caller caller,
           service::InferenceCallback done) {
  context.counters->requests.fetch_add(1, std::memory_order_relaxed);
  context.counters->open.fetch_add(1, std::memory_order_relaxed);
  auto finish = [counters = context.counters,
                 done = std::move(done)](Result<InferenceOutput> output) {
    counters->open.fetch_sub(1, std::memory_order_relaxed);
    if (!output.ok()) counters->failures.fetch_add(1, std::memory_order_relaxed);
    done(std::move(output));
  };
  Result<InferenceRequest> request = rpc::DecodeRequest(message);
  if (!request.ok()) return finish(request.status());
  const Result<const ServedModel*> model = FindModel(*context.models, request->model);
  if (!model.ok()) return finish(model.status());
  request->model = (*model)->info.id;
  request->deadline = caller.deadline;
  request->cancel = std::move(caller.cancel);
  request->trace = caller.trace;
  const auto index = static_cast<size_t>(*model - context.models->data());
  auto answer = Observed(
      context.observer, *request,
      [finish = std::move(finish), health = context.health, index](Result<InferenceOutput> output) {
        if (output.ok() && health != nullptr) health->Note(index);
        finish(std::move(output));
      });
  (*model)->service->Submit(std::move(*request), std::move(answer));
}

// One unary call; deletes itself.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  InferCall(const ServiceContext& context, const grpc::CallbackServerContext& call,
            const v1::InferRequest& request, v1::InferResponse* response)
      : counters_(context.counters) {
    Infer(context, request, {DeadlineOf(call), cancel_, TraceOf(call)},
          [this, response](const Result<InferenceOutput>& output) {
            if (output.ok()) rpc::EncodeOutput(*output, response);
            Finish(rpc::ToGrpcStatus(output.status()));
          });
  }
  void OnCancel() override {
    cancel_->Cancel();
    counters_->cancelled.fetch_add(1);
  }
  void OnDone() override { delete this; }

 private:
  CallCounters* const counters_;
  // Second owner: the request.
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
};

class StreamCall;

// The streams that are open. Thread-safe.
class StreamSet : public StreamDrain {
 public:
  // False: draining, the stream must end.
  bool Add(StreamCall* stream);
  void Remove(StreamCall* stream);
  void DrainStreams() override;

 private:
  std::mutex mutex_;  // guards what follows
  bool draining_ = false;
  std::set<StreamCall*> streams_;
};

// One stream; deletes itself. Finishes when nothing is open, nothing is to be written and nothing
// more will be read: then no callback can come any more.
class StreamCall final
    : public grpc::ServerBidiReactor<v1::InferStreamRequest, v1::InferStreamResponse> {
 public:
  StreamCall(const ServiceContext& context, const grpc::CallbackServerContext& call,
             StreamSet* streams)
      : context_(context), deadline_(DeadlineOf(call)), trace_(TraceOf(call)), streams_(streams) {
    if (!streams_->Add(this)) Stop();
    const std::lock_guard<std::mutex> lock(mutex_);
    Advance();
  }

  // Reads no more, and ends with UNAVAILABLE when what is open is answered.
  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    Advance();
  }

  void OnReadDone(bool ok) override {
    v1::InferStreamRequest message;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reading_ = false;
      if (!ok) {
        read_all_ = true;
        return Advance();
      }
      message.Swap(&incoming_);
    }
    Take(message);
    const std::lock_guard<std::mutex> lock(mutex_);
    Advance();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    outgoing_.pop_front();
    if (!ok) GiveUp();
    Advance();
  }

  void OnCancel() override {
    std::vector<std::shared_ptr<CancelToken>> open;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      GiveUp();
      for (const auto& [id, cancel] : open_) open.push_back(cancel);
      Advance();
    }
    for (const auto& cancel : open) cancel->Cancel();
    context_.counters->cancelled.fetch_add(open.size());
  }

  void OnDone() override {
    streams_->Remove(this);
    { const std::lock_guard<std::mutex> lock(mutex_); }  // whoever called Finish still holds it
    delete this;
  }

 private:
  void Take(const v1::InferStreamRequest& message) {
    const uint64_t id = message.id();
    if (message.cancel()) return CancelOne(id);
    auto cancel = std::make_shared<CancelToken>();
    bool doubled = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (gone_ || finished_) return;
      doubled = !open_.emplace(id, cancel).second;
    }
    if (doubled) {
      return Answer(id, InvalidArgumentError("request " + std::to_string(id) + " is open already"),
                    false);
    }
    Clock::time_point deadline = deadline_;
    if (message.timeout_us() > 0) {
      deadline = std::min(deadline, Clock::now() + std::chrono::microseconds(message.timeout_us()));
    }
    Infer(context_, message.infer(), {deadline, std::move(cancel), trace_},
          [this, id](Result<InferenceOutput> output) { Answer(id, std::move(output), true); });
  }

  void CancelOne(uint64_t id) {
    std::shared_ptr<CancelToken> cancel;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = open_.find(id);
      if (found == open_.end()) return;
      cancel = found->second;
    }
    cancel->Cancel();
  }

  void Answer(uint64_t id, const Result<InferenceOutput>& output, bool closes) {
    v1::InferStreamResponse message;
    message.set_id(id);
    if (output.ok()) {
      rpc::EncodeOutput(*output, message.mutable_response());
    } else {
      message.mutable_error()->set_code(static_cast<int>(output.status().code()));
      message.mutable_error()->set_message(output.status().message());
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closes) open_.erase(id);
    if (!gone_) outgoing_.push_back(std::move(message));
    Advance();
  }

  void GiveUp() {  // mutex_ held: nobody reads the answers
    gone_ = true;
    if (outgoing_.size() > 1) outgoing_.erase(outgoing_.begin() + 1, outgoing_.end());
    if (!writing_) outgoing_.clear();
  }

  // Starts what can be started. With mutex_ held; gRPC calls back on other threads or later, never
  // from within.
  void Advance() {
    if (!writing_ && !outgoing_.empty()) {
      writing_ = true;
      StartWrite(&outgoing_.front());
    }
    const bool no_more = read_all_ || stopped_ || gone_;
    const bool room = open_.size() + outgoing_.size() < MaxOpen();
    if (!reading_ && !no_more && room) {
      reading_ = true;
      StartRead(&incoming_);
    }
    if (no_more && open_.empty() && outgoing_.empty() && !finished_) {
      finished_ = true;
      const Status status = gone_ ? CancelledError("the client has gone")
                            : stopped_ && !read_all_
                                ? UnavailableError("the server is shutting down")
                                : OkStatus();
      Finish(rpc::ToGrpcStatus(status));
    }
  }

  size_t MaxOpen() const { return static_cast<size_t>(context_.max_open_per_stream); }

  const ServiceContext& context_;
  const Clock::time_point deadline_;
  const service::TraceContext trace_;
  StreamSet* const streams_;

  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, std::shared_ptr<CancelToken>> open_;
  std::deque<v1::InferStreamResponse> outgoing_;  // the first is being written if writing_
  v1::InferStreamRequest incoming_;               // gRPC's while reading_
  bool reading_ = false;
  bool writing_ = false;
  bool read_all_ = false;  // the client has half-closed
  bool stopped_ = false;   // the server drains
  bool gone_ = false;      // the client has cancelled or cannot be written to
  bool finished_ = false;
};

bool StreamSet::Add(StreamCall* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.insert(stream);
  return !draining_;
}

void StreamSet::Remove(StreamCall* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.erase(stream);
}

void StreamSet::DrainStreams() {
  const std::lock_guard<std::mutex> lock(mutex_);  // also keeps the streams from being deleted
  draining_ = true;
  for (StreamCall* stream : streams_) stream->Stop();
}

class Service final : public v1::EmbeddingService::CallbackService {
 public:
  explicit Service(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Infer(grpc::CallbackServerContext* call,
                                  const v1::InferRequest* request,
                                  v1::InferResponse* response) override {
    return new InferCall(context_, *call, *request, response);
  }

  grpc::ServerBidiReactor<v1::InferStreamRequest, v1::InferStreamResponse>* InferStream(
      grpc::CallbackServerContext* call) override {
    return new StreamCall(context_, *call, &streams_);
  }

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* call,
                                       const v1::ListModelsRequest* /*request*/,
                                       v1::ListModelsResponse* response) override {
    for (const ServedModel& model : *context_.models) {
      rpc::EncodeModel(model.info, response->add_models());
    }
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  StreamDrain* streams() { return &streams_; }

 private:
  const ServiceContext context_;
  StreamSet streams_;
};

}  // namespace

EmbeddingService MakeEmbeddingService(const ServiceContext& context) {
  auto service = std::make_unique<Service>(context);
  StreamDrain* const drain = service->streams();
  return {std::move(service), drain};
}

}  // namespace pergola::server
