#include "server/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <map>
#include <thread>

#include "engine/testing/fake_runner.h"
#include "pergola/v1/embedding.grpc.pb.h"
#include "rpc/remote_service.h"
#include "scheduler/scheduler.h"

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

}  // namespace
}  // namespace pergola::server
