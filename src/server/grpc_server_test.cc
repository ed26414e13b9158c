#include "server/grpc_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <thread>

#include "core/testing/eventually.h"
#include "engine/testing/fake_runner.h"
#include "pergola/v1/embedding.grpc.pb.h"
#include "rpc/remote_service.h"
#include "scheduler/scheduler.h"
#include "server/testing/self_signed.h"
#include "server/testing/slow_relay.h"

namespace pergola::server {
namespace {

using service::InferenceRequest;

class GrpcServerTest : public ::testing::Test {
 protected:
  void Start(bool gated, GrpcServerOptions options = {}) {
    service::ModelInfo info;
    info.id = "fake";
    info.widths = {2, 2};
    info.max_tokens = 100;
    info.vocab_size = 100;
    scheduler_ = std::make_shared<scheduler::Scheduler>(
        info, std::make_unique<engine::FakeRunner>(gated ? &gate_ : nullptr, &batches_),
        scheduler::SchedulerOptions{.cache_bytes = 0, .single_flight = false});
    auto server = GrpcServer::Start(options, {{scheduler_, info, nullptr}});
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    channel_ = grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials());
    stub_ = v1::EmbeddingService::NewStub(channel_);
  }
  void TearDown() override { gate_.Open(); }
  static v1::InferStreamRequest Ask(uint64_t id, int32_t token) {
    v1::InferStreamRequest request;
    request.set_id(id);
    request.mutable_infer()->add_sequences()->add_ids(token);
    return request;
  }

  engine::Gate gate_;
  std::vector<std::vector<std::vector<int32_t>>> batches_;
  std::shared_ptr<scheduler::Scheduler> scheduler_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::EmbeddingService::Stub> stub_;
};

TEST_F(GrpcServerTest, AStreamAnswersEachRequestUnderItsId) {
  Start(false);
  grpc::ClientContext context;
  auto stream = stub_->InferStream(&context);
  for (uint64_t id = 1; id <= 50; ++id) {
    ASSERT_TRUE(stream->Write(Ask(id, static_cast<int32_t>(id))));
  }
  ASSERT_TRUE(stream->Write(Ask(51, 1000)));  // outside the vocabulary: fails alone
  stream->WritesDone();
  std::map<uint64_t, v1::InferStreamResponse> answers;
  v1::InferStreamResponse answer;
  while (stream->Read(&answer)) EXPECT_TRUE(answers.emplace(answer.id(), answer).second);
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(answers.size(), 51U);
  for (uint64_t id = 1; id <= 50; ++id) {
    const std::string& values = answers[id].response().outputs(0).rows(0).values();
    ASSERT_EQ(values.size(), 8U);
    float first = 0;
    std::memcpy(&first, values.data(), sizeof(first));
    EXPECT_EQ(first, static_cast<float>(id));
  }
  EXPECT_EQ(answers[51].error().code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcServerTest, AStreamMayOpenMoreThanTheLimitAndIsHeldBack) {
  Start(false, {.max_open_per_stream = 2});
  grpc::ClientContext context;
  auto stream = stub_->InferStream(&context);
  std::thread writer([&] {
    for (uint64_t id = 1; id <= 100; ++id) stream->Write(Ask(id, 1));
    stream->WritesDone();
  });
  int answers = 0;
  v1::InferStreamResponse answer;
  while (stream->Read(&answer)) answers += answer.has_response() ? 1 : 0;
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answers, 100);
}

TEST_F(GrpcServerTest, OneRequestOfAStreamCanBeCancelledOrExpire) {
  Start(true);
  grpc::ClientContext context;
  auto stream = stub_->InferStream(&context);
  stream->Write(Ask(1, 1));
  gate_.AwaitArrival();
  stream->Write(Ask(2, 2));
  v1::InferStreamRequest timed = Ask(3, 3);
  timed.set_timeout_us(1);
  stream->Write(timed);
  v1::InferStreamRequest cancel;
  cancel.set_id(2);
  cancel.set_cancel(true);
  stream->Write(cancel);
  stream->Write(Ask(2, 4));  // still open: refused, which also shows that the cancel was read
  v1::InferStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 2U);
  EXPECT_EQ(answer.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  gate_.Open();
  stream->WritesDone();
  std::map<uint64_t, int> codes;
  while (stream->Read(&answer)) codes[answer.id()] = answer.error().code();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(codes[1], 0);
  EXPECT_EQ(codes[2], grpc::StatusCode::CANCELLED);
  EXPECT_EQ(codes[3], grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(GrpcServerTest, AClientThatGoesLeavesNothingOpen) {
  Start(true);
  {
    grpc::ClientContext context;
    auto stream = stub_->InferStream(&context);
    stream->Write(Ask(1, 1));
    stream->Write(Ask(2, 2));
    gate_.AwaitArrival();
    context.TryCancel();
    v1::InferStreamResponse answer;
    EXPECT_FALSE(stream->Read(&answer));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  gate_.Open();
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(10)));
}

TEST_F(GrpcServerTest, DrainingAnswersWhatIsOpenAndEndsStreams) {
  Start(true);
  rpc::RemoteService remote(server_->addresses()[0], {});
  auto promise = std::make_shared<std::promise<Status>>();
  auto unary = promise->get_future();
  InferenceRequest request;
  request.sequences = {{.ids = {5}}};
  remote.Submit(request, [promise](Result<service::InferenceOutput> output) {
    promise->set_value(output.status());
  });
  gate_.AwaitArrival();
  grpc::ClientContext context;
  auto stream = stub_->InferStream(&context);
  stream->Write(Ask(1, 1));
  stream->Write(Ask(2, 1000));
  v1::InferStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));  // of 2: so 1 has been read, too
  EXPECT_EQ(answer.id(), 2U);
  auto drained =
      std::async(std::launch::async, [&] { return server_->Drain(std::chrono::seconds(20)); });
  EXPECT_EQ(drained.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gate_.Open();
  EXPECT_TRUE(unary.get().ok());
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 1U);
  EXPECT_TRUE(answer.has_response());
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(drained.get());
}

TEST_F(GrpcServerTest, APortInUseIsAnError) {
  Start(false);
  const std::string& address = server_->addresses()[0];
  GrpcServerOptions options;
  options.port = std::stoi(address.substr(address.rfind(':') + 1));
  const auto second = GrpcServer::Start(options, {{scheduler_, scheduler_->Models()[0], nullptr}});
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

TEST_F(GrpcServerTest, APeerThatIsNotThereIsUnavailable) {
  rpc::RemoteService remote("127.0.0.1:1", {});
  std::promise<Status> promise;
  InferenceRequest request;
  request.sequences = {{.ids = {5}}};
  remote.Submit(request, [&](Result<service::InferenceOutput> output) {
    promise.set_value(output.status());
  });
  EXPECT_EQ(promise.get_future().get().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(remote.FetchModels(std::chrono::milliseconds(10)).ok());
  EXPECT_TRUE(remote.Models().empty());
}

TEST_F(GrpcServerTest, TheSpanThatAsksTravelsWithTheCall) {
  std::promise<InferLog> logged;
  GrpcServerOptions options;
  options.observer = [&](const InferLog& log) { logged.set_value(log); };
  Start(false, std::move(options));
  rpc::RemoteService remote(server_->addresses()[0], {});
  InferenceRequest request;
  request.sequences.push_back({.ids = {1, 2, 3}});
  request.trace = service::BeginTrace(/*sampled=*/true);
  request.trace.state = "rojo=1,congo=t61";
  const service::TraceContext asked = request.trace;
  std::promise<bool> answered;
  remote.Submit(std::move(request), [&](const Result<service::InferenceOutput>& output) {
    answered.set_value(output.ok());
  });
  EXPECT_TRUE(answered.get_future().get());
  const InferLog log = logged.get_future().get();
  EXPECT_EQ(log.caller, asked);
  EXPECT_EQ(log.tokens, 3);
  EXPECT_EQ(log.code, StatusCode::kOk);
  EXPECT_GT(log.length.count(), 0);
}

// Everybody hangs up while the engine is busy: nothing is computed for the dead.
TEST_F(GrpcServerTest, AThousandQueuedHangUpsCostLessThanTwoSteps) {
  constexpr int kRequests = 1000;
  constexpr int kTokens = 50;
  Start(true);
  const auto metric = [&](const std::string& name) {
    for (const auto& samples : {scheduler_->Metrics(), server_->Metrics()}) {
      for (const auto& sample : samples) {
        if (sample.name == name) return sample.value;
      }
    }
    return -1.0;
  };
  rpc::RemoteService remote(server_->addresses()[0], {});
  std::atomic<int> answered = 0;
  const auto ask = [&](int32_t id) {
    InferenceRequest request;
    request.sequences.push_back({.ids = std::vector<int32_t>(kTokens, id)});
    request.cancel = std::make_shared<service::CancelToken>();
    const auto cancel = request.cancel;
    remote.Submit(std::move(request), [&](const Result<service::InferenceOutput>&) { ++answered; });
    return cancel;
  };
  const auto first = ask(1);
  gate_.AwaitArrival();
  std::vector<std::shared_ptr<service::CancelToken>> waiting;
  for (int i = 0; i < kRequests; ++i) waiting.push_back(ask(2));
  ASSERT_TRUE(Eventually([&] { return metric("pergola_queue_tokens") >= kRequests * kTokens; }));
  for (const auto& cancel : waiting) cancel->Cancel();
  ASSERT_TRUE(Eventually([&] { return metric("pergola_grpc_cancelled_total") >= kRequests; }));
  gate_.Open();
  ASSERT_TRUE(Eventually([&] { return answered == kRequests + 1; }));
  ASSERT_TRUE(Eventually([&] { return metric("pergola_grpc_open_requests") == 0; }));
  // What ran is the request that had begun, and probes of two tokens.
  EXPECT_LT(metric("pergola_batch_tokens_total"), 2 * kTokens);
  EXPECT_EQ(metric("pergola_queue_tokens"), 0);
  EXPECT_EQ(metric("pergola_queue_sequences"), 0);
  EXPECT_EQ(metric("pergola_promised_bytes"), 0);
}

class GrpcTlsTest : public GrpcServerTest {
 protected:
  void StartSecure() {
    GrpcServerOptions options;
    options.tls_cert_pem = certificate_.cert_pem;
    options.tls_key_pem = certificate_.key_pem;
    options.authorise = [](std::string_view authorization) {
      return authorization == "Bearer right";
    };
    Start(false, std::move(options));
  }
  // What asking with these options comes to.
  Status Ask(const rpc::RemoteServiceOptions& options) {
    rpc::RemoteService remote(server_->addresses()[0], options);
    InferenceRequest request;
    request.sequences.push_back({.ids = {1, 2}});
    std::promise<Status> answered;
    remote.Submit(std::move(request), [&](const Result<service::InferenceOutput>& output) {
      answered.set_value(output.status());
    });
    const Status status = answered.get_future().get();
    // Who is refused waits for nothing: the time is for a slow machine.
    const auto models = remote.FetchModels(std::chrono::milliseconds(status.ok() ? 10000 : 300));
    EXPECT_EQ(models.ok(), status.ok()) << models.status().ToString();
    return status;
  }

  const testing::Certificate certificate_ = testing::MakeSelfSigned();
};

TEST_F(GrpcTlsTest, AnswersWhoTrustsItAndHasAKey) {
  StartSecure();
  rpc::RemoteServiceOptions options;
  options.ca_pem = certificate_.cert_pem;
  options.api_key = "right";
  const Status status = Ask(options);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(GrpcTlsTest, ARenewedCertificateIsThatOfNewConnections) {
  StartSecure();
  const testing::Certificate renewed = testing::MakeSelfSigned();
  EXPECT_EQ(server_->RenewTls(renewed.cert_pem, certificate_.key_pem).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(server_->RenewTls(renewed.cert_pem, renewed.key_pem).ok());
  rpc::RemoteServiceOptions options;
  options.api_key = "right";
  options.ca_pem = renewed.cert_pem;
  rpc::RemoteService remote(server_->addresses()[0], options);
  EXPECT_TRUE(Eventually([&] { return remote.FetchModels(std::chrono::milliseconds(2000)).ok(); }));
  options.ca_pem = certificate_.cert_pem;
  EXPECT_EQ(Ask(options).code(), StatusCode::kUnavailable);
}

TEST_F(GrpcTlsTest, AWrongKeyOrNoneIsUnauthenticated) {
  StartSecure();
  rpc::RemoteServiceOptions options;
  options.ca_pem = certificate_.cert_pem;
  for (const char* key : {"wrong", ""}) {
    options.api_key = key;
    EXPECT_EQ(Ask(options).code(), StatusCode::kUnauthenticated) << key;
  }
}

TEST_F(GrpcTlsTest, StrangersAreUnavailable) {
  StartSecure();
  rpc::RemoteServiceOptions options;
  EXPECT_EQ(Ask(options).code(), StatusCode::kUnavailable) << "in the clear";
  options.ca_pem = testing::MakeSelfSigned().cert_pem;
  options.api_key = "right";
  EXPECT_EQ(Ask(options).code(), StatusCode::kUnavailable) << "another authority";
  options.ca_pem = certificate_.cert_pem;
  options.tls_name = "another.example";
  EXPECT_EQ(Ask(options).code(), StatusCode::kUnavailable) << "another name";
}

// A handshake takes round trips: over a long way more than the longest pause between attempts.
TEST_F(GrpcTlsTest, AHandshakeMayTakeItsTime) {
  StartSecure();
  const std::string& address = server_->addresses()[0];
  const testing::SlowRelay relay(std::stoi(address.substr(address.rfind(':') + 1)),
                                 std::chrono::milliseconds(300));
  rpc::RemoteServiceOptions options;
  options.ca_pem = certificate_.cert_pem;
  options.api_key = "right";
  options.max_backoff = std::chrono::milliseconds(100);
  rpc::RemoteService remote(relay.address(), options);
  const auto models = remote.FetchModels(std::chrono::seconds(3));
  EXPECT_TRUE(models.ok()) << models.status().ToString();
}

TEST_F(GrpcTlsTest, HealthNeedsNoKey) {
  StartSecure();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = certificate_.cert_pem;
  const auto channel = grpc::CreateChannel(server_->addresses()[0], grpc::SslCredentials(tls));
  const auto stub = v1::EmbeddingService::NewStub(channel);
  grpc::GenericStub generic(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = generic.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                             grpc::ByteBuffer(nullptr, 0), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, &answer);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << status.error_message();
  queue.Shutdown();
}

TEST_F(GrpcTlsTest, RefusesKeysWithoutTlsAndHalfACertificate) {
  GrpcServerOptions options;
  options.authorise = [](std::string_view) { return true; };
  EXPECT_EQ(GrpcServer::Start(options, {{nullptr, {}, nullptr}}).status().code(),
            StatusCode::kInvalidArgument);
  options.tls_cert_pem = certificate_.cert_pem;
  EXPECT_EQ(GrpcServer::Start(options, {{nullptr, {}, nullptr}}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::server
