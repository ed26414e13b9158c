#include "server/tei_services.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <functional>
#include <mutex>

#include "rpc/status.h"
#include "server/call_deadline.h"
#include "server/tei_calls.h"
#include "tei/v1/tei.grpc.pb.h"

namespace pergola::server {
namespace {

namespace v1 = tei::v1;

using service::CancelToken;

// What the services share.
struct Shared {
  Shared(const ServiceContext& context, std::function<void()> answered)
      : counters(context.counters), calls(context.models->front(), std::move(answered)) {}

  TeiCalls::Done Count(TeiCalls::Done done) {
    counters->requests.fetch_add(1, std::memory_order_relaxed);
    counters->open.fetch_add(1, std::memory_order_relaxed);
    return [this, done = std::move(done)](const Status& status) {
      counters->open.fetch_sub(1, std::memory_order_relaxed);
      if (!status.ok()) counters->failures.fetch_add(1, std::memory_order_relaxed);
      done(status);
    };
  }

  CallCounters* const counters;
  const TeiCalls calls;
};
using SharedPtr = std::shared_ptr<Shared>;

template <typename Request, typename Response>
using Method = void (TeiCalls::*)(const Request&, const CallScope&, Response*,
                                  TeiCalls::Done) const;

// One unary call; deletes itself.
template <typename Request, typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(const SharedPtr& shared, Method<Request, Response> method,
            const grpc::CallbackServerContext& call, const Request& request, Response* response)
      : shared_(shared) {
    const CallScope scope{DeadlineOf(call), cancel_};
    (shared->calls.*method)(request, scope, response, shared->Count([this](const Status& status) {
      Finish(rpc::ToGrpcStatus(status));
    }));
  }
  void OnCancel() override { cancel_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const SharedPtr shared_;
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
};

// A stream answered message by message, in order: at any time one read, one computation or one
// write is under way. The first error ends it. Deletes itself.
template <typename Request, typename Response>
class StreamCall final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  StreamCall(const SharedPtr& shared, Method<Request, Response> method,
             const grpc::CallbackServerContext& call)
      : shared_(shared), method_(method), deadline_(DeadlineOf(call)) {
    this->StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      this->Finish(any_ ? grpc::Status::OK
                        : rpc::ToGrpcStatus(InvalidArgumentError("the stream is empty")));
      return;
    }
    any_ = true;
    response_.Clear();
    const CallScope scope{deadline_, cancel_};
    (shared_->calls.*method_)(request_, scope, &response_,
                              shared_->Count([this](const Status& status) {
                                if (status.ok()) {
                                  this->StartWrite(&response_);
                                } else {
                                  this->Finish(rpc::ToGrpcStatus(status));
                                }
                              }));
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      this->StartRead(&request_);
    } else {
      this->Finish(rpc::ToGrpcStatus(CancelledError("the client has gone")));
    }
  }
  void OnCancel() override { cancel_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const SharedPtr shared_;
  const Method<Request, Response> method_;
  const service::Clock::time_point deadline_;
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  Request request_;
  Response response_;
  bool any_ = false;
};

// Texts of one query, a message each, ranked when all have come. Deletes itself.
class RerankStreamCall final : public grpc::ServerReadReactor<v1::RerankStreamRequest> {
 public:
  RerankStreamCall(const SharedPtr& shared, const grpc::CallbackServerContext& call,
                   v1::RerankResponse* response)
      : shared_(shared), deadline_(DeadlineOf(call)), response_(response) {
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    if (ok) {
      if (whole_.texts_size() == 0) {
        whole_.set_query(message_.query());
        whole_.set_truncate(message_.truncate());
        whole_.set_raw_scores(message_.raw_scores());
        whole_.set_return_text(message_.return_text());
        whole_.set_truncation_direction(message_.truncation_direction());
      }
      whole_.add_texts(message_.text());
      constexpr int kMost = 2048;
      if (whole_.texts_size() <= kMost) return StartRead(&message_);
    }
    if (whole_.texts_size() == 0) {
      return Finish(rpc::ToGrpcStatus(InvalidArgumentError("the stream is empty")));
    }
    const CallScope scope{deadline_, cancel_};
    shared_->calls.Rerank(whole_, scope, response_, shared_->Count([this](const Status& status) {
      Finish(rpc::ToGrpcStatus(status));
    }));
  }
  void OnCancel() override { cancel_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const SharedPtr shared_;
  const service::Clock::time_point deadline_;
  v1::RerankResponse* const response_;
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  v1::RerankStreamRequest message_;
  v1::RerankRequest whole_;
};

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

template <typename Request, typename Response>
Unary* Begin(const SharedPtr& shared, Method<Request, Response> method, Context* call,
             const Request* request, Response* response) {
  return new UnaryCall<Request, Response>(shared, method, *call, *request, response);
}

template <typename Request, typename Response>
grpc::ServerBidiReactor<Request, Response>* BeginStream(const SharedPtr& shared,
                                                        Method<Request, Response> method,
                                                        Context* call) {
  return new StreamCall<Request, Response>(shared, method, *call);
}

class InfoService final : public v1::Info::CallbackService {
 public:
  explicit InfoService(SharedPtr shared) : shared_(std::move(shared)) {}
  Unary* Info(Context* call, const v1::InfoRequest* /*request*/, v1::InfoResponse* out) override {
    shared_->calls.Info(out);
    Unary* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const SharedPtr shared_;
};

class EmbedService final : public v1::Embed::CallbackService {
 public:
  explicit EmbedService(SharedPtr shared) : shared_(std::move(shared)) {}
  Unary* Embed(Context* call, const v1::EmbedRequest* in, v1::EmbedResponse* out) override {
    return Begin(shared_, &TeiCalls::Embed, call, in, out);
  }
  grpc::ServerBidiReactor<v1::EmbedRequest, v1::EmbedResponse>* EmbedStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::Embed, call);
  }
  Unary* EmbedSparse(Context* call, const v1::EmbedSparseRequest* in,
                     v1::EmbedSparseResponse* out) override {
    return Begin(shared_, &TeiCalls::EmbedSparse, call, in, out);
  }
  grpc::ServerBidiReactor<v1::EmbedSparseRequest, v1::EmbedSparseResponse>* EmbedSparseStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::EmbedSparse, call);
  }
  Unary* EmbedAll(Context* call, const v1::EmbedAllRequest* in,
                  v1::EmbedAllResponse* out) override {
    return Begin(shared_, &TeiCalls::EmbedAll, call, in, out);
  }
  grpc::ServerBidiReactor<v1::EmbedAllRequest, v1::EmbedAllResponse>* EmbedAllStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::EmbedAll, call);
  }

 private:
  const SharedPtr shared_;
};

class PredictService final : public v1::Predict::CallbackService {
 public:
  explicit PredictService(SharedPtr shared) : shared_(std::move(shared)) {}
  Unary* Predict(Context* call, const v1::PredictRequest* in, v1::PredictResponse* out) override {
    return Begin(shared_, &TeiCalls::Predict, call, in, out);
  }
  Unary* PredictPair(Context* call, const v1::PredictPairRequest* in,
                     v1::PredictResponse* out) override {
    return Begin(shared_, &TeiCalls::PredictPair, call, in, out);
  }
  grpc::ServerBidiReactor<v1::PredictRequest, v1::PredictResponse>* PredictStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::Predict, call);
  }
  grpc::ServerBidiReactor<v1::PredictPairRequest, v1::PredictResponse>* PredictPairStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::PredictPair, call);
  }

 private:
  const SharedPtr shared_;
};

class RerankService final : public v1::Rerank::CallbackService {
 public:
  explicit RerankService(SharedPtr shared) : shared_(std::move(shared)) {}
  Unary* Rerank(Context* call, const v1::RerankRequest* in, v1::RerankResponse* out) override {
    return Begin(shared_, &TeiCalls::Rerank, call, in, out);
  }
  grpc::ServerReadReactor<v1::RerankStreamRequest>* RerankStream(Context* call,
                                                                 v1::RerankResponse* out) override {
    return new RerankStreamCall(shared_, *call, out);
  }

 private:
  const SharedPtr shared_;
};

class TokenizeService final : public v1::Tokenize::CallbackService {
 public:
  explicit TokenizeService(SharedPtr shared) : shared_(std::move(shared)) {}
  Unary* Tokenize(Context* call, const v1::EncodeRequest* in, v1::EncodeResponse* out) override {
    return Begin(shared_, &TeiCalls::Tokenize, call, in, out);
  }
  grpc::ServerBidiReactor<v1::EncodeRequest, v1::EncodeResponse>* TokenizeStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::Tokenize, call);
  }
  Unary* Decode(Context* call, const v1::DecodeRequest* in, v1::DecodeResponse* out) override {
    return Begin(shared_, &TeiCalls::Decode, call, in, out);
  }
  grpc::ServerBidiReactor<v1::DecodeRequest, v1::DecodeResponse>* DecodeStream(
      Context* call) override {
    return BeginStream(shared_, &TeiCalls::Decode, call);
  }

 private:
  const SharedPtr shared_;
};

}  // namespace

TeiServices MakeTeiServices(const ServiceContext& context) {
  HealthMonitor* const health = context.health;
  auto shared = std::make_shared<Shared>(context, [health] {
    if (health != nullptr) health->Note(0);
  });
  const TeiCalls& calls = shared->calls;
  TeiServices tei;
  tei.abilities = {{"tei.v1.Info", true},
                   {"tei.v1.Embed", calls.embeds()},
                   {"tei.v1.Predict", calls.classifies()},
                   {"tei.v1.Rerank", calls.reranks()},
                   {"tei.v1.Tokenize", true}};
  tei.services.push_back(std::make_unique<InfoService>(shared));
  tei.services.push_back(std::make_unique<EmbedService>(shared));
  tei.services.push_back(std::make_unique<PredictService>(shared));
  tei.services.push_back(std::make_unique<RerankService>(shared));
  tei.services.push_back(std::make_unique<TokenizeService>(shared));
  return tei;
}

}  // namespace pergola::server
