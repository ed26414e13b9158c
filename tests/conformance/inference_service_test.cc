// What every InferenceService promises, run for the scheduler in process, behind a cache, and over
// gRPC on loopback: identical bits, errors, deadlines, cancellation.
#include "service/inference_service.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "api/served_model.h"
#include "core/testing/numeric_matcher.h"
#include "engine/testing/fake_runner.h"
#include "rpc/remote_service.h"
#include "scheduler/cached_service.h"
#include "scheduler/scheduler.h"
#include "server/grpc_server.h"

namespace pergola {
namespace {

using service::CancelToken;
using service::Clock;
using service::InferenceOutput;
using service::InferenceRequest;
using std::chrono::milliseconds;

enum class Where { kInProcess, kCached, kRemote };

// A scheduler and the way to it.
class Served {
 public:
  Served(Where where, std::shared_ptr<service::InferenceService> local, service::ModelInfo info)
      : service_(local) {
    if (where == Where::kInProcess) return;
    if (where == Where::kCached) {
      auto cached = std::make_shared<scheduler::CachedService>(std::move(local),
                                                               scheduler::CachedService::Options{});
      cached->SetIdentity("fake");
      service_ = std::move(cached);
      return;
    }
    auto server = server::GrpcServer::Start({}, {{local, std::move(info), nullptr}});
    EXPECT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    auto remote =
        std::make_shared<rpc::RemoteService>(server_->addresses()[0], rpc::RemoteServiceOptions{});
    EXPECT_TRUE(remote->FetchModels(std::chrono::seconds(10)).ok());
    service_ = remote;
  }
  service::InferenceService& service() { return *service_; }
  // Requests whose client has given up, as the server counts them.
  double cancelled() const {
    for (const service::MetricSample& sample : server_->Metrics()) {
      if (sample.name == "pergola_grpc_cancelled_total") return sample.value;
    }
    return -1;
  }

 private:
  std::unique_ptr<server::GrpcServer> server_;
  std::shared_ptr<service::InferenceService> service_;
};

std::future<Result<InferenceOutput>> Submit(service::InferenceService& service,
                                            InferenceRequest request) {
  auto promise = std::make_shared<std::promise<Result<InferenceOutput>>>();
  auto future = promise->get_future();
  service.Submit(std::move(request), [promise](Result<InferenceOutput> output) {
    promise->set_value(std::move(output));
  });
  return future;
}

InferenceRequest Embed(std::vector<std::vector<int32_t>> sequences) {
  InferenceRequest request;
  for (auto& ids : sequences) request.sequences.push_back({std::move(ids)});
  return request;
}

class InferenceServiceTest : public ::testing::TestWithParam<Where> {
 protected:
  service::InferenceService& Start(bool gated, scheduler::SchedulerOptions options = NoCache()) {
    service::ModelInfo info;
    info.id = "fake";
    info.architecture = "sum";
    info.widths = {2, 2};
    info.max_tokens = 100;
    info.vocab_size = 100;
    scheduler_ = std::make_shared<scheduler::Scheduler>(
        info, std::make_unique<engine::FakeRunner>(gated ? &gate_ : nullptr, &batches_), options);
    served_ = std::make_unique<Served>(GetParam(), scheduler_, info);
    return served_->service();
  }
  static scheduler::SchedulerOptions NoCache() {
    scheduler::SchedulerOptions options;
    options.cache_bytes = 0;
    options.single_flight = false;
    return options;
  }
  void TearDown() override { gate_.Open(); }
  StatusCode CodeOf(service::InferenceService& service, InferenceRequest request) {
    return Submit(service, std::move(request)).get().status().code();
  }

  bool Computed(const std::vector<int32_t>& ids) const {
    for (const auto& batch : batches_) {
      for (const auto& sequence : batch) {
        if (sequence == ids) return true;
      }
    }
    return false;
  }
  double server_cancelled() const { return served_->cancelled(); }
  double QueuedTokens() const {
    for (const service::MetricSample& sample : scheduler_->Metrics()) {
      if (sample.name == "pergola_queue_tokens") return sample.value;
    }
    return -1;
  }

  engine::Gate gate_;
  std::vector<std::vector<std::vector<int32_t>>> batches_;
  std::shared_ptr<scheduler::Scheduler> scheduler_;
  std::unique_ptr<Served> served_;
};

TEST_P(InferenceServiceTest, AnswersInOrderOfTheList) {
  auto& service = Start(false);
  const auto output = Submit(service, Embed({{1, 2}, {3}, {4, 5, 6}})).get();
  ASSERT_TRUE(output.ok()) << output.status().message();
  ASSERT_EQ(output->sequences.size(), 3U);
  EXPECT_EQ((*output->sequences[0])[OutputKind::kEmbedding].values, (std::vector<float>{3, 2}));
  EXPECT_EQ((*output->sequences[1])[OutputKind::kEmbedding].values, (std::vector<float>{3, 1}));
  EXPECT_EQ((*output->sequences[2])[OutputKind::kEmbedding].values, (std::vector<float>{15, 3}));
}

TEST_P(InferenceServiceTest, AnEmptyListIsAnsweredEmpty) {
  auto& service = Start(false);
  const auto output = Submit(service, Embed({})).get();
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_TRUE(output->sequences.empty());
}

TEST_P(InferenceServiceTest, TellsItsModels) {
  const std::vector<service::ModelInfo> models = Start(false).Models();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].id, "fake");
  EXPECT_EQ(models[0].architecture, "sum");
  EXPECT_EQ(models[0].widths, scheduler_->Models()[0].widths);
  EXPECT_EQ(models[0].max_tokens, 100);
  EXPECT_EQ(models[0].vocab_size, 100);
  EXPECT_EQ(models[0].chunk_separator, -1);
}

TEST_P(InferenceServiceTest, RefusesWhatTheModelCannotDo) {
  auto& service = Start(false);
  InferenceRequest other = Embed({{1}});
  other.model = "other";
  EXPECT_EQ(CodeOf(service, other), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(service, Embed({{}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(service, Embed({{100}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(service, Embed({{-1}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(service, Embed({std::vector<int32_t>(101, 1)})), StatusCode::kInvalidArgument);
  InferenceRequest logits = Embed({{1}});
  logits.outputs = {OutputKind::kLogits};
  EXPECT_EQ(CodeOf(service, logits), StatusCode::kInvalidArgument);
  InferenceRequest span = Embed({{1, 2}});
  span.sequences[0].spans = {{0, 3}};
  EXPECT_EQ(CodeOf(service, span), StatusCode::kInvalidArgument);
}

TEST_P(InferenceServiceTest, ErrorsNameTheReason) {
  auto& service = Start(false);
  const auto output = Submit(service, Embed({{1}, {100}})).get();
  EXPECT_NE(output.status().message().find("sequence 1"), std::string::npos)
      << output.status().message();
}

TEST_P(InferenceServiceTest, AFailureIsThatRequestsAlone) {
  auto& service = Start(false);
  EXPECT_EQ(CodeOf(service, Embed({{engine::kPoisonId}})), StatusCode::kInternal);
  EXPECT_EQ(CodeOf(service, Embed({{engine::kFailureId}})), StatusCode::kInternal);
  EXPECT_EQ(CodeOf(service, Embed({{1}})), StatusCode::kOk);
}

TEST_P(InferenceServiceTest, AFullQueueRefuses) {
  scheduler::SchedulerOptions options = NoCache();
  options.max_queued_tokens = 14;  // room for a health probe, too
  auto& service = Start(true, options);
  auto running = Submit(service, Embed({{1}}));
  gate_.AwaitArrival();
  auto waiting = Submit(service, Embed({std::vector<int32_t>(10, 1)}));
  while (QueuedTokens() < 10) std::this_thread::yield();
  EXPECT_EQ(CodeOf(service, Embed({{3, 3}, {4, 4}, {5, 5}})), StatusCode::kResourceExhausted);
  gate_.Open();
  EXPECT_TRUE(running.get().ok());
  EXPECT_TRUE(waiting.get().ok());
}

TEST_P(InferenceServiceTest, ADeadlineInThePastComputesNothing) {
  auto& service = Start(false);
  InferenceRequest request = Embed({{1}});
  request.deadline = Clock::now() - milliseconds(1);
  EXPECT_EQ(CodeOf(service, request), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CodeOf(service, Embed({{2}})), StatusCode::kOk);
  EXPECT_FALSE(Computed({1}));
}

TEST_P(InferenceServiceTest, ADeadlineStrikesWhileTheRequestWaits) {
  auto& service = Start(true);
  auto running = Submit(service, Embed({{1}}));
  gate_.AwaitArrival();
  InferenceRequest late = Embed({{2}});
  const Clock::time_point deadline = Clock::now() + milliseconds(20);
  late.deadline = deadline;
  auto waiting = Submit(service, std::move(late));
  if (GetParam() == Where::kRemote) {  // the client does not wait for the server
    EXPECT_EQ(waiting.get().status().code(), StatusCode::kDeadlineExceeded);
    // Whose own clock began when the request arrived.
    while (server_cancelled() < 1) std::this_thread::yield();
  }
  while (Clock::now() <= deadline) std::this_thread::yield();
  gate_.Open();
  if (GetParam() != Where::kRemote) {
    EXPECT_EQ(waiting.get().status().code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(running.get().ok());
  EXPECT_EQ(CodeOf(service, Embed({{3}})), StatusCode::kOk);
  EXPECT_FALSE(Computed({2}));
}

TEST_P(InferenceServiceTest, CancellingWhatWaitsComputesNothing) {
  auto& service = Start(true);
  auto running = Submit(service, Embed({{1}}));
  gate_.AwaitArrival();
  InferenceRequest request = Embed({std::vector<int32_t>(10, 2)});
  auto cancel = std::make_shared<CancelToken>();
  request.cancel = cancel;
  auto waiting = Submit(service, std::move(request));
  while (QueuedTokens() < 10) std::this_thread::yield();
  cancel->Cancel();
  if (GetParam() == Where::kRemote) {
    EXPECT_EQ(waiting.get().status().code(), StatusCode::kCancelled);
    // The server hears of it later than the client. When the engine is asked next, it knows.
    while (server_cancelled() < 1) std::this_thread::yield();
  }
  gate_.Open();
  if (GetParam() != Where::kRemote) {
    EXPECT_EQ(waiting.get().status().code(), StatusCode::kCancelled);
  }
  EXPECT_TRUE(running.get().ok());
  EXPECT_EQ(CodeOf(service, Embed({{3}})), StatusCode::kOk);
  EXPECT_FALSE(Computed(std::vector<int32_t>(10, 2)));
}

TEST_P(InferenceServiceTest, CancelledBeforeItIsSubmitted) {
  auto& service = Start(false);
  InferenceRequest request = Embed({{1}});
  request.cancel = std::make_shared<CancelToken>();
  request.cancel->Cancel();
  EXPECT_EQ(CodeOf(service, request), StatusCode::kCancelled);
}

TEST_P(InferenceServiceTest, ShuttingDownIsUnavailable) {
  auto& service = Start(false);
  scheduler_->StopAccepting();
  EXPECT_EQ(CodeOf(service, Embed({{1}})), StatusCode::kUnavailable);
}

TEST_P(InferenceServiceTest, ManyThreadsGetTheirOwnAnswers) {
  auto& service = Start(false);
  std::vector<std::future<std::string>> threads;
  for (int32_t thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [&service, thread] {
      std::string wrong;
      for (int32_t id = 0; id < 50; ++id) {
        const int32_t first = (thread * 7 + id) % 60;
        InferenceRequest request = Embed({{first, 1}, {first}});
        request.may_block = id % 2 == 0;
        const auto output = Submit(service, std::move(request)).get();
        const auto value = static_cast<float>(first);
        if (!output.ok()) {
          wrong += output.status().ToString() + "; ";
        } else if ((*output->sequences[0])[OutputKind::kEmbedding].values[0] != value + 1 ||
                   (*output->sequences[1])[OutputKind::kEmbedding].values[0] != value) {
          wrong += "another answer; ";
        }
      }
      return wrong;
    }));
  }
  for (auto& thread : threads) EXPECT_EQ(thread.get(), "");
}

ConstF32Matrix View(const service::Rows& rows) {
  return ConstF32Matrix(rows.values.data(), rows.rows, rows.width);
}

// The rows of a real model, every output at once, over either way: equal bits.
TEST_P(InferenceServiceTest, GivesTheBitsOfTheEngine) {
  const std::string path = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/bge-m3";
  auto model = api::ServedModel::Open("bge-m3", path, {});
  ASSERT_TRUE(model.ok()) << model.status().message();
  InferenceRequest request = Embed({{0, 5, 9, 2}, {0, 7, 2}});
  request.sequences[0].spans = {{1, 2}, {2, 4}};
  request.outputs = {};
  for (const OutputKind kind : kOutputKinds) {
    if ((*model)->info().has(kind)) request.outputs.Add(kind);
  }
  request.outputs.Add(OutputKind::kEmbedding);
  const auto expected = (*model)->scheduler().RunBlocking(request);
  ASSERT_TRUE(expected.ok()) << expected.status().message();

  auto again = api::ServedModel::Open("bge-m3", path, {});  // without the first one's cache
  ASSERT_TRUE(again.ok());
  Served served(GetParam(), (*again)->service(), (*again)->info());
  const auto output = Submit(served.service(), request).get();
  ASSERT_TRUE(output.ok()) << output.status().message();
  ASSERT_EQ(output->sequences.size(), 2U);
  for (size_t index = 0; index < 2; ++index) {
    for (const OutputKind kind : kOutputKinds) {
      const service::Rows& got = (*output->sequences[index])[kind];
      const service::Rows& want = (*expected->sequences[index])[kind];
      ASSERT_EQ(got.values.size(), want.values.size());
      EXPECT_TRUE(pergola::testing::BitEqual(View(got), View(want))) << OutputKindName(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, InferenceServiceTest,
                         ::testing::Values(Where::kInProcess, Where::kCached, Where::kRemote),
                         [](const auto& instance) {
                           return instance.param == Where::kRemote   ? "Remote"
                                  : instance.param == Where::kCached ? "Cached"
                                                                     : "InProcess";
                         });

}  // namespace
}  // namespace pergola
