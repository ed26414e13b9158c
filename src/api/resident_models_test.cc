#include "api/resident_models.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/resident_service.h"
#include "engine/testing/fake_runner.h"
#include "scheduler/scheduler.h"

namespace pergola::api {
namespace {

using service::Clock;
using std::chrono::milliseconds;
using std::chrono::minutes;

class ResidentModelsTest : public ::testing::Test {
 protected:
  void Start(ResidentModels::Options options) {
    options.now = [this] { return now_; };
    all_ = std::make_shared<ResidentModels>(std::move(options));
  }
  // A model of 100 bytes, loaded.
  std::shared_ptr<ResidentModel> Add(const std::string& id) {
    ResidentModel::Source source;
    source.load = [this](const std::function<bool()>& cancelled) -> Result<RunnerPtr> {
      ++loads_;
      if (gate_ != nullptr) gate_->Pass();
      if (cancelled()) return CancelledError("not wanted");
      if (broken_) return NotFoundError("the disk is gone");
      return MakeRunner();
    };
    source.stamp = [this] { return stamp_; };
    source.check = [this, id] {
      ++checks_;
      return id == unreadable_ ? DataLossError("the file is cut off") : OkStatus();
    };
    auto added = all_->Add(id, 100, MakeRunner(), std::move(source));
    EXPECT_TRUE(added.ok()) << added.status().ToString();
    return *added;
  }
  RunnerPtr MakeRunner() { return std::make_shared<engine::FakeRunner>(nullptr, &batches_); }
  static void Ask(ResidentModel& model, const ResidentModel::Use& use = {}) {
    model.Begin();
    EXPECT_TRUE(model.Acquire().ok());
    model.End(use);
  }
  void Pass(milliseconds time) {
    now_ += time;
    all_->UnloadExpired();
  }
  double Metric(const std::string& name, const std::string& id) const {
    for (const service::MetricSample& sample : all_->Metrics()) {
      if (sample.name == name && sample.labels.at(0).second == id) return sample.value;
    }
    ADD_FAILURE() << "no metric " << name << " of " << id;
    return 0;
  }

  Clock::time_point now_{std::chrono::hours(1)};
  std::vector<std::vector<std::vector<int32_t>>> batches_;
  std::string stamp_ = "as they were";
  std::atomic<int> loads_ = 0;
  std::atomic<bool> broken_ = false;
  std::string unreadable_;
  int checks_ = 0;
  engine::Gate* gate_ = nullptr;
  std::shared_ptr<ResidentModels> all_;
};

TEST_F(ResidentModelsTest, UnloadsAModelThatNobodyAskedForInTimeAndLoadsItAgain) {
  Start({.keep_alive = minutes(5)});
  const auto model = Add("a");
  EXPECT_TRUE(model->residence().loaded);
  EXPECT_EQ(model->residence().bytes, 100);
  EXPECT_EQ(model->residence().expires, now_ + minutes(5));
  Pass(minutes(4));
  Ask(*model);
  EXPECT_EQ(loads_, 0);
  Pass(minutes(5) - milliseconds(1));
  EXPECT_TRUE(model->residence().loaded);
  Pass(milliseconds(1));
  EXPECT_FALSE(model->residence().loaded);
  EXPECT_EQ(Metric("pergola_model_resident_bytes", "a"), 0);
  EXPECT_EQ(Metric("pergola_model_unloads_total", "a"), 1);
  Ask(*model);
  EXPECT_EQ(loads_, 1);
  EXPECT_TRUE(model->residence().loaded);
  EXPECT_EQ(Metric("pergola_model_resident_bytes", "a"), 100);
  EXPECT_EQ(Metric("pergola_model_loads_total", "a"), 1);
}

TEST_F(ResidentModelsTest, ARequestSaysHowLongTheModelStays) {
  Start({});
  const auto model = Add("a");
  Pass(std::chrono::hours(10'000));
  EXPECT_TRUE(model->residence().loaded) << "for ever by default";
  Ask(*model, {.keep_alive = minutes(1)});
  Ask(*model, {.probe = true});
  EXPECT_EQ(model->residence().expires, now_ + minutes(1));
  Ask(*model, {.keep_alive = milliseconds(0)});
  EXPECT_TRUE(model->residence().loaded) << "by who calls UnloadExpired alone";
  Pass(milliseconds(0));
  EXPECT_FALSE(model->residence().loaded);
  Ask(*model, {.keep_alive = service::kKeepForever});
  Pass(std::chrono::hours(10'000));
  EXPECT_TRUE(model->residence().loaded);
}

TEST_F(ResidentModelsTest, ARequestInWorkKeepsItsModel) {
  Start({.keep_alive = milliseconds(0)});
  const auto model = Add("a");
  model->Begin();
  model->Begin();
  model->End({});
  Pass(minutes(1));
  EXPECT_TRUE(model->residence().loaded);
  model->End({});
  Pass(milliseconds(0));
  EXPECT_FALSE(model->residence().loaded);
}

TEST_F(ResidentModelsTest, WhoHasTheRunnerKeepsItThoughTheModelIsUnloaded) {
  Start({.keep_alive = milliseconds(0)});
  const auto model = Add("a");
  auto acquired = model->Acquire();
  ASSERT_TRUE(acquired.ok());
  const std::weak_ptr<engine::Runner> watched = acquired->runner;
  Pass(milliseconds(0));
  EXPECT_FALSE(model->residence().loaded);
  EXPECT_FALSE(watched.expired());
  acquired->runner = nullptr;
  EXPECT_TRUE(watched.expired());
}

TEST_F(ResidentModelsTest, TheModelUnusedForLongestMakesRoom) {
  Start({.budget_bytes = 250});
  const auto a = Add("a");
  const auto b = Add("b");
  now_ += minutes(1);
  Ask(*a);
  const auto c = Add("c");
  EXPECT_TRUE(a->residence().loaded);
  EXPECT_FALSE(b->residence().loaded);
  EXPECT_TRUE(c->residence().loaded);
  now_ += minutes(1);
  Ask(*c);
  Ask(*b);
  EXPECT_FALSE(a->residence().loaded);
  EXPECT_TRUE(b->residence().loaded);
  EXPECT_TRUE(c->residence().loaded);
}

TEST_F(ResidentModelsTest, WithoutAnIdleModelToUnloadItIsUnavailableAndSaysTheFigures) {
  Start({.budget_bytes = 150});
  const auto a = Add("a");
  const auto b = Add("b");
  EXPECT_FALSE(a->residence().loaded);
  b->Begin();
  const auto refused = a->Acquire();
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->runner, nullptr);
  EXPECT_EQ(refused->missing.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused->missing.message(),
            "the model 'a' takes 100 bytes of memory; of the budget of 150 models in use hold 100");
  EXPECT_EQ(loads_, 0);
  b->End({});
  Ask(*a);
  EXPECT_FALSE(b->residence().loaded);
}

TEST_F(ResidentModelsTest, RefusesAModelBeyondTheWholeBudget) {
  Start({.budget_bytes = 99});
  const auto added = all_->Add("a", 100, MakeRunner(), {});
  EXPECT_EQ(added.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ResidentModelsTest, OnDemandAModelIsAddedWithoutItsWeights) {
  Start({.on_demand = true});
  const auto model = Add("a");
  EXPECT_FALSE(model->residence().loaded);
  Ask(*model);
  EXPECT_TRUE(model->residence().loaded);
}

TEST_F(ResidentModelsTest, AFailedLoadIsToldAndTriedAgainAtItsTime) {
  std::vector<std::string> told;
  ResidentModels::Options options{.budget_bytes = 150, .on_demand = true};
  options.tell = [&told](const std::string& line) { told.push_back(line); };
  Start(std::move(options));
  const auto a = Add("a");
  const auto b = Add("b");
  broken_ = true;
  const auto failed = a->Acquire();
  EXPECT_EQ(failed.status().code(), StatusCode::kInternal);
  EXPECT_EQ(
      failed.status().message(),
      "the model 'a' could not be loaded; the server's log says why; it is tried again in 1 s")
      << "what it was is not for clients";
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("the disk is gone"), std::string::npos);
  EXPECT_EQ(Metric("pergola_model_failed_loads_total", "a"), 1);
  broken_ = false;
  Ask(*b);  // the memory of the failed one is free
  now_ += milliseconds(999);
  EXPECT_EQ(a->Acquire().status(), failed.status());
  EXPECT_EQ(loads_, 2);
  now_ += milliseconds(1);
  Ask(*a);
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(told.size(), 4u) << "a failed, b loaded, b unloaded, a loaded";
}

TEST_F(ResidentModelsTest, WhatCannotBeOpenedMakesNoRoomForItself) {
  std::vector<std::string> told;
  ResidentModels::Options options{.budget_bytes = 150, .on_demand = true};
  options.tell = [&told](const std::string& line) { told.push_back(line); };
  Start(std::move(options));
  const auto good = Add("good");
  const auto bad = Add("bad");
  unreadable_ = "bad";
  Ask(*good);
  EXPECT_EQ(checks_, 1);
  for (const int seconds : {1, 2, 4}) {
    const auto failed = bad->Acquire();
    EXPECT_EQ(failed.status().code(), StatusCode::kInternal);
    EXPECT_NE(failed.status().message().find("in " + std::to_string(seconds) + " s"),
              std::string::npos)
        << failed.status().ToString();
    EXPECT_NE(told.back().find("the file is cut off"), std::string::npos);
    EXPECT_FALSE(bad->Acquire().ok());  // is not looked at again so soon
    now_ += std::chrono::seconds(seconds);
  }
  EXPECT_EQ(checks_, 1 + 3);
  EXPECT_EQ(Metric("pergola_model_failed_loads_total", "bad"), 3);
  EXPECT_EQ(Metric("pergola_model_unloads_total", "good"), 0);
  EXPECT_TRUE(good->residence().loaded);
  EXPECT_EQ(loads_, 1);
  unreadable_ = "";
  Ask(*bad);
  EXPECT_FALSE(good->residence().loaded);
}

TEST_F(ResidentModelsTest, WhoWaitsForRoomIsCheckedOnceUnlessItsFilesChange) {
  Start({.budget_bytes = 150});
  const auto model = Add("waits");
  const auto busy = Add("busy");
  busy->Begin();
  for (const auto& [stamp, checks] : {std::pair("one", 1), {"one", 1}, {"two", 2}, {"two", 2}}) {
    stamp_ = stamp;
    EXPECT_FALSE(model->Acquire()->missing.ok());
    EXPECT_EQ(checks_, checks);
  }
  busy->End({});
  for (ResidentModel* next : {model.get(), busy.get(), model.get()}) Ask(*next);
  EXPECT_EQ(checks_, 4) << "for each load anew";
}

TEST_F(ResidentModelsTest, FailuresInARowAreTriedAgainEverLater) {
  Start({.on_demand = true, .first_retry = milliseconds(2000), .last_retry = milliseconds(10'000)});
  const auto model = Add("a");
  broken_ = true;
  for (const int seconds : {2, 4, 8, 10, 10}) {
    const int before = loads_;
    const auto failed = model->Acquire();
    EXPECT_EQ(loads_, before + 1);
    EXPECT_NE(failed.status().message().find("in " + std::to_string(seconds) + " s"),
              std::string::npos)
        << failed.status().ToString();
    now_ += std::chrono::seconds(seconds) - milliseconds(1);
    EXPECT_NE(model->Acquire().status().message().find("in 1 s"), std::string::npos);
    EXPECT_EQ(loads_, before + 1);
    now_ += milliseconds(1);
  }
  broken_ = false;
  Ask(*model, {.keep_alive = milliseconds(0)});
  Pass(milliseconds(0));
  broken_ = true;
  EXPECT_NE(model->Acquire().status().message().find("in 2 s"), std::string::npos)
      << "not in a row";
}

TEST_F(ResidentModelsTest, FilesThatHaveChangedAreTriedAtOnce) {
  Start({.on_demand = true});
  const auto model = Add("a");
  broken_ = true;
  EXPECT_FALSE(model->Acquire().ok());
  stamp_ = "half mended";
  EXPECT_FALSE(model->Acquire().ok());
  EXPECT_FALSE(model->Acquire().ok());
  EXPECT_EQ(loads_, 2);
  stamp_ = "mended";
  broken_ = false;
  Ask(*model);
  EXPECT_EQ(loads_, 3);
}

TEST_F(ResidentModelsTest, WhatIsAnsweredElsewhereCountsAsUse) {
  Start({.keep_alive = minutes(5)});
  const auto model = Add("a");
  now_ += minutes(4);
  model->Touch({});
  EXPECT_EQ(model->residence().expires, now_ + minutes(5));
  model->Touch({.keep_alive = minutes(1)});
  EXPECT_EQ(model->residence().expires, now_ + minutes(1));
}

TEST_F(ResidentModelsTest, NoLoadIsBegunOrEndedAfterAStop) {
  Start({.on_demand = true});
  const auto a = Add("a");
  const auto b = Add("b");
  Ask(*b);
  engine::Gate gate;
  gate_ = &gate;
  auto loading = std::async(std::launch::async, [&] { return a->Acquire(); });
  gate.AwaitArrival();
  all_->StopLoading();
  gate.Open();
  const auto ended = loading.get();
  EXPECT_EQ(ended.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(ended.status().message(), "the server is shutting down");
  EXPECT_EQ(Metric("pergola_model_failed_loads_total", "a"), 0);
  EXPECT_EQ(a->Acquire().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(loads_, 2);
  Ask(*b, {.keep_alive = milliseconds(0)});
  Pass(minutes(1));
  EXPECT_TRUE(b->residence().loaded) << "what is in memory stays for those on their way";
}

TEST_F(ResidentModelsTest, OfManyAtOnceOneLoads) {
  Start({.on_demand = true});
  const auto model = Add("a");
  engine::Gate gate;
  gate_ = &gate;
  std::vector<std::future<Result<ResidentModel::Acquired>>> answers;
  for (int i = 0; i < 4; ++i) {
    answers.push_back(std::async(std::launch::async, [&] { return model->Acquire(); }));
  }
  gate.AwaitArrival();
  EXPECT_FALSE(model->residence().loaded);  // does not wait for the load
  all_->UnloadExpired();
  gate.Open();
  int loaded = 0;
  for (auto& answer : answers) {
    const auto acquired = answer.get();
    ASSERT_TRUE(acquired.ok());
    loaded += acquired->load_time.count() > 0 ? 1 : 0;
  }
  EXPECT_EQ(loaded, 1);
  EXPECT_EQ(loads_, 1);
}

// The budget, the clock and requests, all at once: for the thread sanitizer, and no use may fail
// but for want of memory.
TEST_F(ResidentModelsTest, SurvivesRequestsAndUnloadingAtTheSameTime) {
  Start({.budget_bytes = 250, .keep_alive = milliseconds(0)});
  const std::vector<std::shared_ptr<ResidentModel>> models = {Add("a"), Add("b"), Add("c")};
  std::atomic<bool> stop = false;
  std::thread unloads([&] {
    while (!stop) all_->UnloadExpired();
  });
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < 200; ++i) {
        ResidentModel& model = *models[(i + thread) % models.size()];
        model.Begin();
        const auto acquired = model.Acquire();
        ASSERT_TRUE(acquired.ok());
        if (acquired->runner != nullptr) {
          EXPECT_EQ(acquired->runner->step_tokens(), 16);
        } else {
          EXPECT_EQ(acquired->missing.code(), StatusCode::kUnavailable);
        }
        model.End({});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  unloads.join();
  all_->UnloadExpired();
  for (const auto& model : models) EXPECT_FALSE(model->residence().loaded);
}

class ResidentServiceTest : public ResidentModelsTest {
 protected:
  void Serve() {
    model_ = Add("fake");
    service::ModelInfo info;
    info.id = "fake";
    info.widths = {2, 2};
    info.max_tokens = 100;
    info.vocab_size = 100;
    scheduler_ = std::make_shared<scheduler::Scheduler>(
        info, MakeResidentRunner(model_, *MakeRunner()), scheduler::SchedulerOptions{});
    service_ = MakeResidentService(scheduler_, model_);
  }
  std::future<Result<service::InferenceOutput>> Submit(
      std::vector<int32_t> ids, Clock::time_point deadline = Clock::time_point::max()) {
    service::InferenceRequest request;
    request.sequences.push_back({std::move(ids)});
    request.deadline = deadline;
    request.keep_alive = milliseconds(0);
    auto promise = std::make_shared<std::promise<Result<service::InferenceOutput>>>();
    service_->Submit(std::move(request), [promise](Result<service::InferenceOutput> output) {
      promise->set_value(std::move(output));
    });
    return promise->get_future();
  }

  std::shared_ptr<ResidentModel> model_;
  std::shared_ptr<scheduler::Scheduler> scheduler_;
  std::shared_ptr<service::InferenceService> service_;
};

TEST_F(ResidentServiceTest, LoadsForABatchAndAnswersFromTheCacheWithoutLoading) {
  Start({.on_demand = true});
  Serve();
  const auto first = Submit({1, 2}).get();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_GT(first->load_time.count(), 0);
  EXPECT_GE(first->queue_time, first->load_time);
  EXPECT_EQ(first->sequences[0]->by_kind[0].values, (std::vector<float>{3, 2}));
  EXPECT_TRUE(service_->residence().loaded);
  EXPECT_EQ(service_->residence().expires, now_);
  const auto next = Submit({4}).get();
  EXPECT_EQ(next->load_time.count(), 0);
  Pass(milliseconds(0));
  EXPECT_FALSE(service_->residence().loaded);
  EXPECT_EQ(Submit({1, 2}).get()->cache_hits, 1);
  EXPECT_FALSE(service_->residence().loaded);
  EXPECT_TRUE(Submit({5}).get().ok());
  EXPECT_EQ(loads_, 2);
}

TEST_F(ResidentServiceTest, WhoWaitsForAFailedLoadIsToldAndTheNextIsServed) {
  Start({.on_demand = true});
  Serve();
  engine::Gate gate;
  gate_ = &gate;
  broken_ = true;
  std::vector<std::future<Result<service::InferenceOutput>>> waiting;
  waiting.push_back(Submit({1}));
  gate.AwaitArrival();
  for (int32_t id = 2; id < 60; ++id) waiting.push_back(Submit({id, id}));  // several batches
  gate.Open();
  for (auto& answer : waiting) EXPECT_EQ(answer.get().status().code(), StatusCode::kInternal);
  EXPECT_EQ(loads_, 1);
  broken_ = false;
  EXPECT_EQ(Submit({1}).get().status().code(), StatusCode::kInternal);
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(Submit({1}).get().ok());
}

TEST_F(ResidentServiceTest, ADeadlineThatPassesWhileLoadingCostsNoComputation) {
  Start({.on_demand = true});
  Serve();
  engine::Gate gate;
  gate_ = &gate;
  auto patient = Submit({1});
  gate.AwaitArrival();
  auto late = Submit({2}, Clock::now());
  gate.Open();
  EXPECT_TRUE(patient.get().ok());
  EXPECT_EQ(late.get().status().code(), StatusCode::kDeadlineExceeded);
  ASSERT_EQ(batches_.size(), 1u);
  EXPECT_EQ(batches_[0].size(), 1u);
}

TEST_F(ResidentServiceTest, WhatIsAnsweredElsewhereCountsAsUse) {
  Start({.keep_alive = minutes(5)});
  Serve();
  now_ += minutes(4);
  service_->NoteUse(minutes(1));
  EXPECT_EQ(service_->residence().expires, now_ + minutes(1));
  service_->NoteUse(std::nullopt);
  EXPECT_EQ(service_->residence().expires, now_ + minutes(5));
}

TEST_F(ResidentServiceTest, StopsWhileAModelIsLoading) {
  Start({.on_demand = true});
  Serve();
  engine::Gate gate;
  gate_ = &gate;
  auto answer = Submit({1});
  gate.AwaitArrival();
  service_ = nullptr;
  std::thread stop([&] { scheduler_ = nullptr; });
  EXPECT_EQ(answer.get().status().code(), StatusCode::kUnavailable);
  gate.Open();
  stop.join();
}

}  // namespace
}  // namespace pergola::api
