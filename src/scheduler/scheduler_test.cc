#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "engine/testing/fake_runner.h"

namespace pergola::scheduler {
namespace {

using engine::FakeRunner;
using engine::Gate;
using engine::kFailureId;
using engine::kPoisonId;
using service::Clock;
using service::InferenceOutput;
using service::InferenceRequest;

class SchedulerTest : public ::testing::Test {
 protected:
  void Start(SchedulerOptions options, bool gated) {
    service::ModelInfo info;
    info.id = "fake";
    info.widths = {2, 2};
    info.max_tokens = 100;
    info.vocab_size = 100;
    scheduler_ = std::make_unique<Scheduler>(
        info, std::make_unique<FakeRunner>(gated ? &gate_ : nullptr, &batches_), options);
  }
  std::future<Result<InferenceOutput>> Submit(InferenceRequest request) {
    auto promise = std::make_shared<std::promise<Result<InferenceOutput>>>();
    auto future = promise->get_future();
    scheduler_->Submit(std::move(request), [promise](Result<InferenceOutput> output) {
      promise->set_value(std::move(output));
    });
    return future;
  }
  static InferenceRequest Embed(std::vector<std::vector<int32_t>> sequences) {
    InferenceRequest request;
    for (auto& ids : sequences) request.sequences.push_back({std::move(ids)});
    return request;
  }
  static SchedulerOptions NoCache() {
    SchedulerOptions options;
    options.cache_bytes = 0;
    options.single_flight = false;
    return options;
  }

  Gate gate_;
  std::vector<std::vector<std::vector<int32_t>>> batches_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, AnswersInOrderOfTheList) {
  Start({}, false);
  const auto output = Submit(Embed({{1, 2}, {3}, {4, 5, 6}})).get();
  ASSERT_TRUE(output.ok());
  ASSERT_EQ(output->sequences.size(), 3u);
  EXPECT_EQ(output->sequences[0]->by_kind[0].values, (std::vector<float>{3, 2}));
  EXPECT_EQ(output->sequences[1]->by_kind[0].values, (std::vector<float>{3, 1}));
  EXPECT_EQ(output->sequences[2]->by_kind[0].values, (std::vector<float>{15, 3}));
}

TEST_F(SchedulerTest, WhatArrivesWhileABatchRunsIsTheNextBatch) {
  Start(NoCache(), true);
  auto first = Submit(Embed({{1}}));
  gate_.AwaitArrival();
  std::vector<std::future<Result<InferenceOutput>>> later;
  for (int32_t id = 2; id < 8; ++id) later.push_back(Submit(Embed({{id}})));
  gate_.Open();
  EXPECT_TRUE(first.get().ok());
  for (auto& answer : later) EXPECT_TRUE(answer.get().ok());
  ASSERT_EQ(batches_.size(), 2u);
  EXPECT_EQ(batches_[1].size(), 6u);
}

TEST_F(SchedulerTest, WithAFixedDelayABatchWaitsForCompanyUntilAStepIsFull) {
  SchedulerOptions options = NoCache();
  options.batching.adaptive_wait = false;
  options.batching.fixed_wait = std::chrono::hours(1);
  Start(options, false);
  auto first = Submit(Embed({{1, 2, 3, 4, 5, 6, 7, 8}}));
  auto second = Submit(Embed({{9}}));
  auto third = Submit(Embed({{1, 2, 3, 4, 5, 6, 7}}));  // 16 tokens: a step
  for (auto* answer : {&first, &second, &third}) EXPECT_TRUE(answer->get().ok());
  ASSERT_EQ(batches_.size(), 1u);
  EXPECT_EQ(batches_[0].size(), 3u);
  auto last = Submit(Embed({{1}}));
  scheduler_.reset();  // does not wait for the hour
  EXPECT_EQ(last.get().status().code(), StatusCode::kUnavailable);
}

TEST_F(SchedulerTest, EqualSequencesUnderWayAreComputedOnceAndThenCached) {
  Start({}, true);
  auto first = Submit(Embed({{7, 8}}));
  gate_.AwaitArrival();
  auto twin = Submit(Embed({{7, 8}, {9}, {9}}));
  gate_.Open();
  EXPECT_EQ(first.get()->sequences[0]->by_kind[0].values[0], 15);
  EXPECT_EQ(twin.get()->sequences[2]->by_kind[0].values[0], 9);
  ASSERT_EQ(batches_.size(), 2u);
  EXPECT_EQ(batches_[1].size(), 1u);
  const auto again = Submit(Embed({{9}, {7, 8}})).get();
  EXPECT_EQ(again->cache_hits, 2);
  EXPECT_EQ(batches_.size(), 2u);
}

TEST_F(SchedulerTest, TokenVectorsAndPooledRowsDoNotMix) {
  Start({}, false);
  ASSERT_TRUE(Submit(Embed({{3, 4}})).get().ok());
  InferenceRequest request = Embed({{3, 4}});
  request.outputs = {OutputKind::kTokenVectors};
  const auto output = Submit(std::move(request)).get();
  const service::Rows& rows = (*output->sequences[0])[OutputKind::kTokenVectors];
  EXPECT_EQ(rows.rows, 2);
  EXPECT_EQ(rows.values, (std::vector<float>{3, 0, 4, 1}));
}

TEST_F(SchedulerTest, RefusesWhatTheModelCannotTake) {
  Start({}, false);
  EXPECT_EQ(Submit(Embed({{}})).get().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Submit(Embed({{100}})).get().status().message(),
            "sequence 0: token id 100 is outside the vocabulary of 100");
  EXPECT_EQ(Submit(Embed({std::vector<int32_t>(101, 1)})).get().status().message(),
            "sequence 0 has 101 tokens, the limit is 100");
  InferenceRequest other = Embed({{1}});
  other.model = "other";
  EXPECT_EQ(Submit(std::move(other)).get().status().code(), StatusCode::kNotFound);
  InferenceRequest logits = Embed({{1}});
  logits.outputs = {OutputKind::kLogits};
  EXPECT_EQ(Submit(std::move(logits)).get().status().message(), "the model 'fake' gives no logits");
  InferenceRequest pair = Embed({{1, 2}});
  pair.sequences[0].second_text = 3;
  EXPECT_EQ(Submit(std::move(pair)).get().status().code(), StatusCode::kInvalidArgument);
  for (const std::vector<TokenSpan>& spans :
       {std::vector<TokenSpan>{{0, 3}}, {{1, 1}}, {{1, 2}, {0, 1}}, {{-1, 1}}}) {
    InferenceRequest spanned = Embed({{1, 2}});
    spanned.sequences[0].spans = spans;
    EXPECT_EQ(Submit(std::move(spanned)).get().status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Submit(Embed({})).get()->sequences.empty());
}

TEST_F(SchedulerTest, AdmissionCountsQueuedTokensAndPromisedBytes) {
  SchedulerOptions options = NoCache();
  options.max_queued_tokens = 10;
  options.max_promised_bytes = 80;  // ten rows of two floats
  Start(options, true);
  auto lone = Submit(Embed({std::vector<int32_t>(50, 1)}));  // over the limit, but nobody waits
  gate_.AwaitArrival();
  auto second = Submit(Embed({std::vector<int32_t>(8, 2)}));
  const auto refused = Submit(Embed({{1, 2, 3}})).get();
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(), "8 tokens are queued, 3 more exceed the limit of 10");
  const auto bytes = Submit(Embed(std::vector<std::vector<int32_t>>(9, {1}))).get();
  EXPECT_EQ(bytes.status().code(), StatusCode::kResourceExhausted);
  const auto never = Submit(Embed(std::vector<std::vector<int32_t>>(11, {1}))).get();
  EXPECT_EQ(never.status().code(), StatusCode::kInvalidArgument);
  gate_.Open();
  EXPECT_TRUE(lone.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(Submit(Embed({{1, 2, 3}})).get().ok());
}

TEST_F(SchedulerTest, PromisedBytesCountUntilTheRowsAreLetGo) {
  SchedulerOptions options = NoCache();
  options.max_promised_bytes = 80;  // ten rows of two floats
  Start(options, false);
  auto held = Submit(Embed(std::vector<std::vector<int32_t>>(9, {1}))).get();
  ASSERT_TRUE(held.ok());
  const std::vector<std::vector<int32_t>> two(2, {1});
  EXPECT_EQ(Submit(Embed(two)).get().status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Submit(Embed({{1}})).get().ok());
  held = InternalError("let go");
  EXPECT_TRUE(Submit(Embed(two)).get().ok());
}

TEST_F(SchedulerTest, LargeAnswersLeaveRoomForSmallOnes) {
  SchedulerOptions options;
  options.cache_bytes = 0;
  options.max_promised_bytes = 16 << 20;
  Start(options, false);
  // Token vectors of equal sequences, which are computed once; 100 rows of 8 bytes each.
  const auto request = [](int64_t bytes) {
    InferenceRequest made = Embed(std::vector<std::vector<int32_t>>(
        static_cast<size_t>(bytes / 800), std::vector<int32_t>(100, 1)));
    made.outputs = {OutputKind::kTokenVectors};
    return made;
  };
  EXPECT_EQ(Submit(request(15 << 20)).get().status().code(), StatusCode::kInvalidArgument);
  const auto large = Submit(request(14 << 20)).get();
  EXPECT_TRUE(large.ok());
  EXPECT_EQ(Submit(request(2 << 20)).get().status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Submit(request(1 << 20)).get().ok());
}

TEST_F(SchedulerTest, CancelledAndExpiredRequestsAreDroppedBeforeTheyRun) {
  Start({}, true);
  auto first = Submit(Embed({{1}}));
  gate_.AwaitArrival();
  InferenceRequest cancelled = Embed({{2}});
  cancelled.cancel = std::make_shared<service::CancelToken>();
  const auto token = cancelled.cancel;
  auto cancelled_answer = Submit(std::move(cancelled));
  InferenceRequest expired = Embed({{3}});
  expired.deadline = Clock::now();
  auto expired_answer = Submit(std::move(expired));
  auto twin_of_cancelled = Submit(Embed({{2}}));
  token->Cancel();
  gate_.Open();
  EXPECT_EQ(cancelled_answer.get().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(expired_answer.get().status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(twin_of_cancelled.get()->sequences[0]->by_kind[0].values[0], 2);
  EXPECT_TRUE(first.get().ok());
  for (const auto& batch : batches_) {
    for (const auto& ids : batch) EXPECT_NE(ids[0], 3);
  }
}

TEST_F(SchedulerTest, ARowThatIsNotFiniteFailsItsRequestAlone) {
  Start(NoCache(), true);
  auto first = Submit(Embed({{1}}));
  gate_.AwaitArrival();
  auto poisoned = Submit(Embed({{5}, {kPoisonId}}));
  auto healthy = Submit(Embed({{6}}));
  gate_.Open();
  EXPECT_EQ(poisoned.get().status().code(), StatusCode::kInternal);
  EXPECT_TRUE(healthy.get().ok());
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(batches_[1].size(), 3u);
}

TEST_F(SchedulerTest, AFailedBatchIsReportedAndNotCached) {
  Start({}, false);
  EXPECT_EQ(Submit(Embed({{kFailureId}})).get().status().message(),
            "the engine failed: device lost");
  EXPECT_EQ(Submit(Embed({{kFailureId}})).get().status().code(), StatusCode::kInternal);
  EXPECT_EQ(batches_.size(), 2u);
}

TEST_F(SchedulerTest, ShutdownAnswersWhatWaits) {
  Start(NoCache(), true);
  auto running = Submit(Embed({{1}}));
  gate_.AwaitArrival();
  auto waiting = Submit(Embed({{2}}));
  scheduler_->StopAccepting();
  EXPECT_EQ(Submit(Embed({{3}})).get().status().code(), StatusCode::kUnavailable);
  std::thread destroyer([this] { scheduler_.reset(); });
  EXPECT_EQ(waiting.get().status().code(), StatusCode::kUnavailable);
  gate_.Open();
  EXPECT_TRUE(running.get().ok());
  destroyer.join();
}

TEST_F(SchedulerTest, BlockingCallersShareTheEngine) {
  Start(NoCache(), false);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int32_t caller = 0; caller < 4; ++caller) {
    threads.emplace_back([&, caller] {
      for (int32_t round = 0; round < 200; ++round) {
        const auto output = scheduler_->RunBlocking(Embed({{caller, round % 50}}));
        if (output.ok() &&
            output->sequences[0]->by_kind[0].values[0] == static_cast<float>(caller + round % 50)) {
          ++right;
        }
        InferenceRequest request = Embed({{round % 60}});
        request.may_block = round % 2 == 0;
        const auto async = Submit(std::move(request)).get();
        if (async.ok()) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4 * 200 * 2);
}

TEST_F(SchedulerTest, WhoMayBlockIsAnsweredBeforeSubmitReturns) {
  Start(NoCache(), false);
  for (int32_t id = 1; id < 50; ++id) {
    InferenceRequest request = Embed({{id}});
    request.may_block = true;
    std::thread::id answerer;
    float sum = 0;
    scheduler_->Submit(std::move(request), [&](Result<InferenceOutput> output) {
      answerer = std::this_thread::get_id();
      sum = output.ok() ? output->sequences[0]->by_kind[0].values[0] : -1;
    });
    ASSERT_EQ(answerer, std::this_thread::get_id());
    ASSERT_EQ(sum, static_cast<float>(id));
  }
}

TEST_F(SchedulerTest, WhoMayBlockDoesNotWaitForABatchUnderWay) {
  Start(NoCache(), true);
  auto first = Submit(Embed({{1}}));
  gate_.AwaitArrival();
  InferenceRequest request = Embed({{2}});
  request.may_block = true;
  auto second = Submit(std::move(request));  // returns
  gate_.Open();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST_F(SchedulerTest, WhoMayBlockWaitsForCompanyAsAllDo) {
  SchedulerOptions options = NoCache();
  options.batching.adaptive_wait = false;
  options.batching.fixed_wait = std::chrono::hours(1);
  Start(options, false);
  std::vector<std::future<Result<InferenceOutput>>> answers;
  for (int32_t id = 1; id < 3; ++id) {
    InferenceRequest request = Embed({{id, 2, 3, 4, 5, 6, 7, 8}});
    request.may_block = true;
    answers.push_back(Submit(std::move(request)));  // 8 tokens, half a step
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(batches_.size(), 1u);
}

TEST_F(SchedulerTest, WhatComesWhileACallerComputesIsTheNextBatch) {
  Start(NoCache(), true);
  std::thread caller([this] {
    InferenceRequest request = Embed({{1}});
    request.may_block = true;
    EXPECT_TRUE(Submit(std::move(request)).get().ok());
  });
  gate_.AwaitArrival();
  std::vector<std::future<Result<InferenceOutput>>> later;
  for (int32_t id = 2; id < 8; ++id) later.push_back(Submit(Embed({{id}})));
  gate_.Open();
  caller.join();
  for (auto& answer : later) EXPECT_TRUE(answer.get().ok());
  ASSERT_EQ(batches_.size(), 2u);
  EXPECT_EQ(batches_[1].size(), 6u);
}

TEST_F(SchedulerTest, TheEndWaitsForACallerThatComputes) {
  Start(NoCache(), true);
  std::promise<Status> answered;
  std::thread caller([&] {
    InferenceRequest request = Embed({{1}});
    request.may_block = true;
    scheduler_->Submit(std::move(request), [&](Result<InferenceOutput> output) {
      answered.set_value(output.status());
    });
  });
  gate_.AwaitArrival();
  auto waiting = Submit(Embed({{2}}));
  std::thread destroyer([this] { scheduler_.reset(); });
  EXPECT_EQ(waiting.get().status().code(), StatusCode::kUnavailable);  // it has begun to end
  gate_.Open();
  EXPECT_TRUE(answered.get_future().get().ok());
  caller.join();
  destroyer.join();
}

TEST_F(SchedulerTest, MetricsTellBatchesAndCache) {
  Start({}, false);
  ASSERT_TRUE(Submit(Embed({{1}, {2}})).get().ok());
  ASSERT_TRUE(Submit(Embed({{1}})).get().ok());
  double hits = -1, batches = -1, size_sum = -1;
  for (const service::MetricSample& sample : scheduler_->Metrics()) {
    if (sample.name == "pergola_cache_hits_total") hits = sample.value;
    if (sample.name == "pergola_batches_total") batches = sample.value;
    if (sample.name == "pergola_batch_size") size_sum = sample.value;
  }
  EXPECT_EQ(hits, 1);
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(size_sum, 2);
}

TEST_F(SchedulerTest, TenantsTakeTurns) {
  Start(NoCache(), true);
  auto first = Submit(Embed({{1}}));
  gate_.AwaitArrival();
  // 16 tokens a step: the greedy one alone would fill three.
  InferenceRequest greedy;
  greedy.tenant = "greedy";
  for (int32_t i = 0; i < 12; ++i) greedy.sequences.push_back({{10 + i, 1, 1, 1}});
  auto much = Submit(std::move(greedy));
  InferenceRequest modest = Embed({{90, 1, 1, 1}});
  modest.tenant = "modest";
  auto little = Submit(std::move(modest));
  gate_.Open();
  ASSERT_TRUE(first.get().ok());
  ASSERT_TRUE(much.get().ok());
  ASSERT_TRUE(little.get().ok());
  ASSERT_GE(batches_.size(), 2U);
  const auto& second = batches_[1];
  EXPECT_NE(std::find(second.begin(), second.end(), std::vector<int32_t>({90, 1, 1, 1})),
            second.end())
      << "the modest one waits for one step, not for the greedy one's whole list";
}

// Must be made ready before each batch, and fails in that as often as it is told to.
class LoadingRunner : public FakeRunner {
 public:
  LoadingRunner(Gate* gate, std::vector<std::vector<std::vector<int32_t>>>* batches, int failures)
      : FakeRunner(nullptr, batches), gate_(gate), failures_(failures) {}
  Result<Readied> MakeReady(const Need&) override {
    gate_->Pass();
    if (failures_-- > 0) return UnavailableError("no memory");
    return Readied{std::chrono::nanoseconds(5)};
  }

 private:
  Gate* gate_;
  int failures_;
};

TEST_F(SchedulerTest, WhatWaitsForARunnerThatCannotBeMadeReadyFailsAtOnce) {
  service::ModelInfo info;
  info.widths = {2, 2};
  info.max_tokens = info.vocab_size = 100;
  scheduler_ = std::make_unique<Scheduler>(
      info, std::make_unique<LoadingRunner>(&gate_, &batches_, /*failures=*/1), SchedulerOptions{});
  std::vector<std::future<Result<InferenceOutput>>> waiting;
  waiting.push_back(Submit(Embed({{1}})));
  gate_.AwaitArrival();
  for (int32_t id = 2; id < 40; ++id) waiting.push_back(Submit(Embed({{id, id}, {1}})));
  gate_.Open();
  for (auto& answer : waiting) EXPECT_EQ(answer.get().status().message(), "no memory");
  EXPECT_TRUE(batches_.empty());
  const auto next = Submit(Embed({{1}})).get();  // is not taken for a twin of what failed
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->load_time.count(), 5);
  const auto blocking = scheduler_->RunBlocking(Embed({{2}}));
  ASSERT_TRUE(blocking.ok());
  EXPECT_EQ(blocking->load_time.count(), 5);
}

}  // namespace
}  // namespace pergola::scheduler
