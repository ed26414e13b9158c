#include "gateway/replica_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "core/testing/eventually.h"

namespace pergola::gateway {
namespace {

using service::InferenceCallback;
using service::InferenceOutput;
using service::InferenceRequest;
using std::chrono::milliseconds;

constexpr int64_t kWidth = 2;

// A replica that answers [first id, its own number], fails, or keeps requests.
class FakeReplica : public service::InferenceService {
 public:
  explicit FakeReplica(int number) : number_(number) {}

  void Submit(InferenceRequest request, InferenceCallback done) override {
    Status failure;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++requests_;
      models_.push_back(request.model);
      if (holding_ && !(request.cancel != nullptr && request.cancel->cancelled())) {
        auto shared = std::make_shared<Held>(Held{std::move(request), std::move(done)});
        held_.push_back(shared);
        changed_.notify_all();
        return;
      }
      failure = failure_;
    }
    if (!failure.ok()) return done(failure);
    done(Answer(request));
  }
  std::vector<service::ModelInfo> Models() const override { return {}; }

  void FailWith(Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::move(status);
  }
  void Hold() {
    const std::lock_guard<std::mutex> lock(mutex_);
    holding_ = true;
  }
  // Answers what is held, with an error if one is set.
  void Release() {
    std::vector<std::shared_ptr<Held>> held;
    Status failure;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      holding_ = false;
      held.swap(held_);
      failure = failure_;
    }
    for (const auto& each : held) {
      each->done(failure.ok() ? Answer(each->request) : Result<InferenceOutput>(failure));
    }
  }
  void AwaitHeld(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() >= count; });
  }
  // Of those held.
  size_t cancelled() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t count = 0;
    for (const auto& each : held_) count += each->request.cancel->cancelled() ? 1 : 0;
    return count;
  }
  int requests() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }
  std::vector<std::string> models() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return models_;
  }

 private:
  struct Held {
    InferenceRequest request;
    InferenceCallback done;
  };
  Result<InferenceOutput> Answer(const InferenceRequest& request) const {
    InferenceOutput output;
    for (const Sequence& sequence : request.sequences) {
      auto rows = std::make_shared<service::SequenceOutput>();
      (*rows)[OutputKind::kEmbedding] = {
          1, kWidth, {static_cast<float>(sequence.ids[0]), static_cast<float>(number_)}};
      output.sequences.push_back(std::move(rows));
    }
    output.rows_identity = std::to_string(number_);
    return output;
  }

  const int number_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int requests_ = 0;
  std::vector<std::string> models_;
  Status failure_;
  bool holding_ = false;
  std::vector<std::shared_ptr<Held>> held_;
};

class ReplicaSetTest : public ::testing::Test {
 protected:
  void Start(int count, ReplicaSetOptions options = {}) {
    service::ModelInfo info;
    info.id = "model";
    info.widths[static_cast<size_t>(OutputKind::kEmbedding)] = kWidth;
    info.vocab_size = 1000;
    info.max_tokens = 100;
    std::vector<Replica> replicas;
    for (int number = 0; number < count; ++number) {
      fakes_.push_back(std::make_shared<FakeReplica>(number));
      replicas.push_back({"r" + std::to_string(number), fakes_.back(), "theirs"});
    }
    set_ = std::make_unique<ReplicaSet>(info, std::move(replicas), options);
  }
  void TearDown() override {
    for (const auto& fake : fakes_) fake->Release();
    set_.reset();
  }
  static ReplicaSetOptions Quick() {
    ReplicaSetOptions options;
    options.min_probe_pause = milliseconds(1);
    options.max_probe_pause = milliseconds(2);
    return options;
  }
  static ReplicaSetOptions NeverBack() {
    ReplicaSetOptions options;
    options.min_probe_pause = std::chrono::hours(1);
    return options;
  }
  static InferenceRequest List(std::vector<int32_t> first_ids) {
    InferenceRequest request;
    for (const int32_t id : first_ids) request.sequences.push_back({.ids = {id, 1, 1, 1}});
    return request;
  }
  std::future<Result<InferenceOutput>> Submit(InferenceRequest request) {
    auto promise = std::make_shared<std::promise<Result<InferenceOutput>>>();
    auto future = promise->get_future();
    set_->Submit(std::move(request), [promise](Result<InferenceOutput> output) {
      promise->set_value(std::move(output));
    });
    return future;
  }
  static std::vector<float> Firsts(const InferenceOutput& output) {
    std::vector<float> firsts;
    for (const auto& sequence : output.sequences) {
      firsts.push_back((*sequence)[OutputKind::kEmbedding].values[0]);
    }
    return firsts;
  }
  double Metric(const std::string& name) {
    double sum = 0;
    for (const auto& sample : set_->Metrics()) sum += sample.name == name ? sample.value : 0;
    return sum;
  }
  void AwaitHealthy(int count) {
    ASSERT_TRUE(Eventually([&] { return set_->healthy() == count; }));
  }

  std::vector<std::shared_ptr<FakeReplica>> fakes_;
  std::unique_ptr<ReplicaSet> set_;
};

TEST_F(ReplicaSetTest, AsksInTheReplicasOwnName) {
  Start(1);
  InferenceRequest request = List({7});
  request.model = "model";
  const auto output = Submit(request).get();
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(Firsts(*output), std::vector<float>{7});
  EXPECT_EQ(fakes_[0]->models(), std::vector<std::string>{"theirs"});
  request.model = "other";
  EXPECT_EQ(Submit(request).get().status().code(), StatusCode::kNotFound);
}

TEST_F(ReplicaSetTest, ALongListIsJoinedInOrder) {
  ReplicaSetOptions options;
  options.pieces.tokens = 8;  // two sequences
  Start(3, options);
  const auto output = Submit(List({1, 2, 3, 4, 5, 6, 7})).get();
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(Firsts(*output), (std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
  int asked = 0;
  for (const auto& fake : fakes_) asked += fake->requests();
  EXPECT_GE(asked, 4);
}

TEST_F(ReplicaSetTest, TheReplicaWithFewerTokensOutstandingIsAsked) {
  Start(2);
  for (const auto& fake : fakes_) fake->Hold();
  std::vector<std::future<Result<InferenceOutput>>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(Submit(List({i})));
  EXPECT_EQ(fakes_[0]->requests(), 10);
  EXPECT_EQ(fakes_[1]->requests(), 10);
  EXPECT_EQ(Metric("pergola_replica_outstanding_tokens"), 80);
  for (const auto& fake : fakes_) fake->Release();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(Metric("pergola_replica_outstanding_tokens"), 0);
}

TEST_F(ReplicaSetTest, WhatADeadReplicaHeldIsAnsweredByOthers) {
  Start(3, NeverBack());
  fakes_[0]->Hold();
  std::vector<std::future<Result<InferenceOutput>>> answers;
  for (int i = 0; i < 30; ++i) answers.push_back(Submit(List({i})));
  ASSERT_GT(fakes_[0]->requests(), 0);
  fakes_[0]->FailWith(UnavailableError("connection reset by 10.0.0.7"));
  fakes_[0]->Release();
  for (int i = 0; i < 30; ++i) {
    const auto output = answers[static_cast<size_t>(i)].get();
    ASSERT_TRUE(output.ok()) << output.status().message();
    EXPECT_EQ(Firsts(*output), std::vector<float>{static_cast<float>(i)});
  }
  EXPECT_EQ(set_->healthy(), 2);
  EXPECT_EQ(Metric("pergola_replica_ejections_total"), 1);
  const int before = fakes_[0]->requests();
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  EXPECT_EQ(fakes_[0]->requests(), before);
}

TEST_F(ReplicaSetTest, AReplicaComesBackWhenAProbeSucceeds) {
  Start(2, Quick());
  fakes_[0]->FailWith(UnavailableError("gone"));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  EXPECT_LE(set_->healthy(), 1);
  fakes_[0]->FailWith(OkStatus());
  AwaitHealthy(2);
}

TEST_F(ReplicaSetTest, AllGoneIsUnavailableAtOnceAndRecoversByItself) {
  Start(2, Quick());
  for (const auto& fake : fakes_) fake->FailWith(UnavailableError("connect to 10.0.0.7 failed"));
  const Status status = Submit(List({1})).get().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message().find("10.0.0.7"), std::string::npos) << "addresses are not told";
  EXPECT_EQ(set_->healthy(), 0);
  EXPECT_EQ(Submit(List({1})).get().status().code(), StatusCode::kUnavailable);
  for (const auto& fake : fakes_) fake->FailWith(OkStatus());
  AwaitHealthy(2);
  EXPECT_TRUE(Submit(List({1})).get().ok());
}

TEST_F(ReplicaSetTest, AReplicaThatHangsIsGivenUpAndItsWorkDoneElsewhere) {
  ReplicaSetOptions options = NeverBack();
  options.stall_timeout = milliseconds(20);
  Start(2, options);
  fakes_[0]->Hold();
  std::vector<std::future<Result<InferenceOutput>>> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(Submit(List({i})));
  for (int i = 0; i < 10; ++i) {
    const auto output = answers[static_cast<size_t>(i)].get();
    ASSERT_TRUE(output.ok()) << output.status().message();
    EXPECT_EQ(Firsts(*output), std::vector<float>{static_cast<float>(i)});
  }
  EXPECT_EQ(set_->healthy(), 1);
}

TEST_F(ReplicaSetTest, ARequestAtFaultIsNotTriedAgain) {
  Start(3);
  for (const auto& fake : fakes_) fake->FailWith(InvalidArgumentError("sequence 0 is empty"));
  const Status status = Submit(List({1})).get().status();
  EXPECT_EQ(status, InvalidArgumentError("sequence 0 is empty"));
  EXPECT_EQ(set_->healthy(), 3);
  EXPECT_EQ(Metric("pergola_retries_total"), 0);
}

TEST_F(ReplicaSetTest, AFullReplicaIsLeftForAnotherAndNotEjected) {
  Start(2);
  fakes_[0]->FailWith(ResourceExhaustedError("full"));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  EXPECT_EQ(set_->healthy(), 2);
  fakes_[1]->FailWith(ResourceExhaustedError("full"));
  EXPECT_EQ(Submit(List({1})).get().status().code(), StatusCode::kResourceExhausted);
}

TEST_F(ReplicaSetTest, AnEngineThatKeepsFailingIsEjected) {
  Start(2, NeverBack());
  fakes_[0]->FailWith(InternalError("device lost"));
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  EXPECT_EQ(set_->healthy(), 1);
  EXPECT_LE(fakes_[0]->requests(), 5);
}

TEST_F(ReplicaSetTest, TheBudgetEndsRetries) {
  ReplicaSetOptions options = NeverBack();
  options.retry_burst = 2;
  options.retry_share = 0;
  options.failures_to_eject = 1000;
  Start(2, options);
  for (const auto& fake : fakes_) fake->FailWith(InternalError("no"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Submit(List({i})).get().ok());
  EXPECT_EQ(fakes_[0]->requests() + fakes_[1]->requests(), 7);
  EXPECT_EQ(Metric("pergola_retries_refused_total"), 3);
}

TEST_F(ReplicaSetTest, CancellingReachesTheReplica) {
  Start(1);
  fakes_[0]->Hold();
  InferenceRequest request = List({1});
  request.cancel = std::make_shared<service::CancelToken>();
  auto answer = Submit(request);
  fakes_[0]->AwaitHeld(1);
  request.cancel->Cancel();
  fakes_[0]->FailWith(CancelledError("cancelled"));
  fakes_[0]->Release();
  EXPECT_EQ(answer.get().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(set_->healthy(), 1);
}

TEST_F(ReplicaSetTest, OnePieceThatFailsFailsTheListOnce) {
  ReplicaSetOptions options = NeverBack();
  options.pieces.tokens = 4;
  options.max_attempts = 1;
  Start(2, options);
  fakes_[0]->FailWith(InternalError("no"));
  EXPECT_EQ(Submit(List({1, 2, 3, 4, 5, 6, 7, 8})).get().status().code(), StatusCode::kInternal);
}

TEST_F(ReplicaSetTest, PromisedBytesAreABudget) {
  ReplicaSetOptions options;
  options.max_promised_bytes = 24;
  Start(1, options);
  EXPECT_EQ(Submit(List({1, 2, 3, 4})).get().status().code(), StatusCode::kInvalidArgument);
  const auto kept = Submit(List({1, 2})).get();
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(Submit(List({1, 2})).get().status().code(), StatusCode::kResourceExhausted);
}

TEST_F(ReplicaSetTest, EndsWhileAReplicaHoldsRequests) {
  Start(2);
  for (const auto& fake : fakes_) fake->Hold();
  auto answer = Submit(List({1}));
  auto ended = std::async(std::launch::async, [&] { set_.reset(); });
  for (const auto& fake : fakes_) fake->FailWith(CancelledError("cancelled"));
  for (const auto& fake : fakes_) fake->Release();
  ended.get();
  EXPECT_FALSE(answer.get().ok());
}

class HedgeTest : public ReplicaSetTest {
 protected:
  static ReplicaSetOptions After(milliseconds time) {
    ReplicaSetOptions options = NeverBack();
    options.hedge_after = time;
    return options;
  }
  // Requests until replica `number` holds one.
  std::future<Result<InferenceOutput>> HeldBy(size_t number) {
    fakes_[number]->Hold();
    while (true) {
      auto answer = Submit(List({7}));
      if (fakes_[number]->requests() > 0) return answer;
      EXPECT_TRUE(answer.get().ok());
    }
  }
};

TEST_F(HedgeTest, AStragglerIsAskedElsewhereAndTheLoserCancelled) {
  Start(2, After(milliseconds(50)));
  auto answer = HeldBy(0);
  const auto output = answer.get();
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_EQ((*output->sequences[0])[OutputKind::kEmbedding].values, (std::vector<float>{7, 1}));
  EXPECT_EQ(Metric("pergola_hedges_total"), 1);
  EXPECT_EQ(Metric("pergola_hedges_won_total"), 1);
  EXPECT_EQ(Metric("pergola_replica_outstanding_tokens"), 0);
  ASSERT_TRUE(Eventually([&] { return fakes_[0]->cancelled() == 1; }));
  EXPECT_EQ(set_->healthy(), 2) << "slow is not broken";
  EXPECT_EQ(Metric("pergola_retries_total"), 0);
  // Its late answer changes nothing.
  fakes_[0]->Release();
  EXPECT_EQ(Metric("pergola_replica_outstanding_tokens"), 0);
}

TEST_F(HedgeTest, IsOffUnlessAskedFor) {
  Start(2);
  auto answer = HeldBy(0);
  EXPECT_EQ(answer.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(Metric("pergola_hedges_total"), 0);
  fakes_[0]->Release();
  EXPECT_TRUE(answer.get().ok());
}

TEST_F(HedgeTest, TheFirstAnswerCountsAlsoIfItIsTheSlowOnes) {
  Start(2, After(milliseconds(50)));
  for (const auto& fake : fakes_) fake->Hold();
  auto answer = Submit(List({7}));
  for (const auto& fake : fakes_) fake->AwaitHeld(1);
  fakes_[1]->Release();
  ASSERT_TRUE(answer.get().ok());
  fakes_[0]->Release();
  EXPECT_EQ(Metric("pergola_hedges_total"), 1);
}

TEST_F(HedgeTest, AFailureOfOneWaitsForTheOther) {
  Start(2, After(milliseconds(50)));
  for (const auto& fake : fakes_) fake->Hold();
  auto answer = Submit(List({7}));
  for (const auto& fake : fakes_) fake->AwaitHeld(1);
  fakes_[0]->FailWith(UnavailableError("gone"));
  fakes_[0]->Release();
  EXPECT_EQ(answer.wait_for(milliseconds(0)), std::future_status::timeout);
  fakes_[1]->Release();
  const auto output = answer.get();
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_EQ(set_->healthy(), 1);
}

TEST_F(HedgeTest, TheBudgetEndsHedges) {
  ReplicaSetOptions options = After(milliseconds(50));
  options.hedge_burst = 2;
  options.hedge_share = 0;
  Start(2, options);
  for (const auto& fake : fakes_) fake->Hold();
  std::vector<std::future<Result<InferenceOutput>>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(Submit(List({i})));
  ASSERT_TRUE(Eventually([&] { return Metric("pergola_hedges_refused_total") >= 3; }));
  EXPECT_EQ(Metric("pergola_hedges_total"), 2);
  for (const auto& fake : fakes_) fake->Release();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
}

TEST_F(HedgeTest, AQuantileOfWhatIsUsualHedgesWithoutAFixedTime) {
  ReplicaSetOptions options;
  options.hedge_quantile = 0.95;
  Start(2, options);
  // Nothing is usual yet: whatever is kept waits.
  auto early = HeldBy(0);
  EXPECT_EQ(early.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(Metric("pergola_hedges_total"), 0);
  fakes_[0]->Release();
  EXPECT_TRUE(early.get().ok());
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  auto slow = HeldBy(0);
  ASSERT_TRUE(slow.get().ok()) << "answered by the other";
  EXPECT_GE(Metric("pergola_hedges_total"), 1);
}

class SetReplicasTest : public ReplicaSetTest {
 protected:
  // The replicas of these numbers and no others.
  void Set(const std::vector<int>& numbers) {
    std::vector<Replica> replicas;
    for (const int number : numbers) {
      while (fakes_.size() <= static_cast<size_t>(number)) {
        fakes_.push_back(std::make_shared<FakeReplica>(static_cast<int>(fakes_.size())));
      }
      replicas.push_back({"r" + std::to_string(number), fakes_[static_cast<size_t>(number)], "m"});
    }
    set_->SetReplicas(std::move(replicas));
  }
};

TEST_F(SetReplicasTest, ANewOneGetsRequestsAndOneThatIsGoneNone) {
  Start(1);
  Set({0, 1});
  EXPECT_EQ(set_->healthy(), 2);
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  EXPECT_GT(fakes_[1]->requests(), 0);
  Set({1});
  const int before = fakes_[0]->requests();
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  EXPECT_EQ(fakes_[0]->requests(), before);
  EXPECT_EQ(set_->healthy(), 1);
}

TEST_F(SetReplicasTest, WhatIsOpenAtOneThatIsGoneIsAnsweredAndThenItIsLetGo) {
  Start(1);
  fakes_[0]->Hold();
  auto answer = Submit(List({7}));
  fakes_[0]->AwaitHeld(1);
  Set({1});
  fakes_[0]->Release();
  const auto output = answer.get();
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(Firsts(*output), std::vector<float>{7});
  ASSERT_TRUE(Eventually([&] { return fakes_[0].use_count() == 1; }));
}

TEST_F(SetReplicasTest, OneThatStaysKeepsItsState) {
  Start(2, NeverBack());
  fakes_[0]->FailWith(UnavailableError("gone"));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Submit(List({i})).get().ok());
  ASSERT_EQ(set_->healthy(), 1);
  Set({0, 1, 2});
  EXPECT_EQ(set_->healthy(), 2);
}

TEST_F(SetReplicasTest, NoneIsUnavailableAndOthersMayCome) {
  Start(1);
  Set({});
  EXPECT_EQ(Submit(List({1})).get().status().code(), StatusCode::kUnavailable);
  Set({1});
  EXPECT_TRUE(Submit(List({1})).get().ok());
}

}  // namespace
}  // namespace pergola::gateway
