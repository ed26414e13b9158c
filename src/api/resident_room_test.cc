// Turns of models that have no room beside each other.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/resident_models.h"
#include "api/resident_service.h"
#include "engine/testing/fake_runner.h"
#include "scheduler/scheduler.h"

namespace pergola::api {
namespace {

using service::Clock;
using std::chrono::milliseconds;
using Answer = std::future<Result<service::InferenceOutput>>;

// What was loaded and run, in order: "load a", "a 1".
class Journal {
 public:
  void Add(std::string line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> lines() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;  // guards the next
  std::vector<std::string> lines_;
};

// Writes the first id of each batch down, and waits at a gate when it is that one's.
class JournalRunner : public engine::Runner {
 public:
  JournalRunner(std::string name, Journal* journal, std::map<int32_t, engine::Gate>* gates)
      : name_(std::move(name)), journal_(*journal), gates_(*gates) {}
  int64_t step_tokens() const override { return 4; }
  int64_t width(OutputKind) const override { return 2; }
  Result<std::unique_ptr<engine::Outputs>> Run(
      std::span<const engine::SequenceInput> batch) override {
    std::vector<std::vector<float>> rows;
    for (const engine::SequenceInput& input : batch) {
      const int32_t id = input.sequence->ids[0];
      journal_.Add(name_ + " " + std::to_string(id));
      if (const auto gate = gates_.find(id); gate != gates_.end()) gate->second.Pass();
      rows.push_back({static_cast<float>(id), 1});
    }
    return std::unique_ptr<engine::Outputs>(new engine::FakeOutputs(std::move(rows)));
  }

 private:
  const std::string name_;
  Journal& journal_;
  std::map<int32_t, engine::Gate>& gates_;
};

class ResidentRoomTest : public ::testing::Test {
 protected:
  struct Served {
    std::shared_ptr<ResidentModel> model;
    std::shared_ptr<scheduler::Scheduler> scheduler;
    std::shared_ptr<service::InferenceService> service;
  };
  void Start(int64_t budget_bytes, bool on_demand = false) {
    all_ = std::make_shared<ResidentModels>(
        ResidentModels::Options{.budget_bytes = budget_bytes, .on_demand = on_demand});
  }
  // A model of 100 bytes.
  void Serve(const std::string& id, std::function<Status()> check = nullptr) {
    const auto make = [this, id]() -> RunnerPtr {
      return std::make_shared<JournalRunner>(id, &journal_, &gates_);
    };
    ResidentModel::Source source;
    source.load = [this, id, make](const std::function<bool()>&) -> Result<RunnerPtr> {
      journal_.Add("load " + id);
      return make();
    };
    source.check = std::move(check);
    const auto model = all_->Add(id, 100, make(), std::move(source));
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    service::ModelInfo info;
    info.id = id;
    info.widths = {2, 2};
    info.max_tokens = 100;
    info.vocab_size = 1000;
    Served served;
    served.model = *model;
    served.scheduler = std::make_shared<scheduler::Scheduler>(
        info, MakeResidentRunner(*model, *make()),
        scheduler::SchedulerOptions{.cache_bytes = 0, .single_flight = false});
    served.service = MakeResidentService(served.scheduler, *model);
    served_.insert_or_assign(id, std::move(served));
  }
  // Of four tokens, a step's worth: it runs alone.
  Answer Submit(const std::string& id, int32_t first,
                Clock::time_point deadline = Clock::time_point::max(),
                std::shared_ptr<service::CancelToken> cancel = nullptr) {
    service::InferenceRequest request;
    request.sequences.push_back({{first, 1, 1, 1}});
    request.deadline = deadline;
    request.cancel = std::move(cancel);
    auto promise = std::make_shared<std::promise<Result<service::InferenceOutput>>>();
    served_.at(id).service->Submit(std::move(request),
                                   [promise](Result<service::InferenceOutput> output) {
                                     promise->set_value(std::move(output));
                                   });
    return promise->get_future();
  }
  double Metric(const std::string& name, const std::string& id) const {
    for (const service::MetricSample& sample : all_->Metrics()) {
      if (sample.name == name && sample.labels.at(0).second == id) return sample.value;
    }
    ADD_FAILURE() << "no metric " << name << " of " << id;
    return 0;
  }
  void AwaitWaiting(const std::string& id) const {
    while (Metric("pergola_model_waiting", id) == 0) std::this_thread::yield();
  }

  // Room for one of two models: "a" computes request 1 until the gate opens, "b" has none.
  struct Busy {
    engine::Gate& gate;
    Answer answer;
  };
  Busy StartBusy() {
    Start(150);
    Serve("b");
    Serve("a");
    engine::Gate& gate = gates_[1];
    Answer answer = Submit("a", 1);
    gate.AwaitArrival();
    return {gate, std::move(answer)};
  }
  // Returns when the request waits for room.
  Answer SubmitForRoom(const std::string& id, int32_t first,
                       Clock::time_point deadline = Clock::time_point::max(),
                       std::shared_ptr<service::CancelToken> cancel = nullptr) {
    Answer answer = Submit(id, first, deadline, std::move(cancel));
    AwaitWaiting(id);
    return answer;
  }

  std::shared_ptr<ResidentModels> all_;
  Journal journal_;
  std::map<int32_t, engine::Gate> gates_;
  std::map<std::string, Served> served_;  // last: they run with what stands above
};

TEST_F(ResidentRoomTest, WhoNeedsRoomWaitsForABusyModelToRest) {
  auto [gate, busy] = StartBusy();
  Answer waits = SubmitForRoom("b", 2);
  EXPECT_TRUE(served_.at("a").model->residence().loaded);
  gate.Open();
  EXPECT_TRUE(busy.get().ok());
  const auto answered = waits.get();
  ASSERT_TRUE(answered.ok()) << answered.status().ToString();
  EXPECT_GT(answered->load_time.count(), 0);
  EXPECT_LT(answered->load_time, answered->queue_time) << "it does not count the wait";
  EXPECT_FALSE(served_.at("a").model->residence().loaded);
  EXPECT_GT(Metric("pergola_model_wait_seconds_total", "b"), 0);
  EXPECT_EQ(Metric("pergola_model_waiting", "b"), 0);
}

TEST_F(ResidentRoomTest, RequestsTakeTheirTurnsOverAllModels) {
  Start(150);
  for (const char* id : {"c", "b", "a"}) Serve(id);
  engine::Gate& gate = gates_[1];
  std::vector<Answer> answers;
  answers.push_back(Submit("a", 1));
  gate.AwaitArrival();
  answers.push_back(Submit("a", 2));
  answers.push_back(SubmitForRoom("b", 3));
  answers.push_back(Submit("a", 4));
  answers.push_back(SubmitForRoom("c", 5));
  answers.push_back(Submit("a", 6));
  answers.push_back(Submit("b", 7));
  gate.Open();
  for (Answer& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(journal_.lines(),
            (std::vector<std::string>{"a 1", "a 2", "load b", "b 3", "load a", "a 4", "load c",
                                      "c 5", "load a", "a 6", "load b", "b 7"}));
}

TEST_F(ResidentRoomTest, OnlyAsManyGiveWayAsMustAndThoseLongestInMemoryFirst) {
  Start(250);
  for (const char* id : {"c", "b", "a"}) Serve(id);  // c has gone for a
  engine::Gate& gate_b = gates_[1];
  engine::Gate& gate_a = gates_[2];
  Answer b = Submit("b", 1);
  Answer a = Submit("a", 2);
  gate_b.AwaitArrival();
  gate_a.AwaitArrival();
  Answer c = SubmitForRoom("c", 3);
  Answer later = Submit("a", 4);
  gate_a.Open();
  EXPECT_TRUE(a.get().ok());
  EXPECT_TRUE(later.get().ok()) << "b is longer there, a does not wait for it";
  gate_b.Open();
  EXPECT_TRUE(b.get().ok());
  EXPECT_TRUE(c.get().ok());
}

TEST_F(ResidentRoomTest, AWaitEndsWithTheDeadlineAndSaysWhy) {
  auto [gate, busy] = StartBusy();
  Answer patient = SubmitForRoom("b", 2);
  const auto late = Submit("b", 3, Clock::now() + milliseconds(100)).get();  // before patient is
  EXPECT_EQ(late.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(late.status().message(),
            "the model 'b' takes 100 bytes of memory; of the budget of 150 models in use hold 100");
  Answer more = Submit("a", 4);  // gives way
  gate.Open();
  EXPECT_TRUE(patient.get().ok());
  EXPECT_TRUE(more.get().ok());
  EXPECT_TRUE(busy.get().ok());
}

TEST_F(ResidentRoomTest, WhoHasGivenUpKeepsNobodyWaiting) {
  auto [gate, busy] = StartBusy();
  auto cancel = std::make_shared<service::CancelToken>();
  Answer cancelled = SubmitForRoom("b", 2, Clock::now() + std::chrono::hours(1), cancel);
  cancel->Cancel();
  Answer gone = Submit("b", 3, Clock::now() + milliseconds(30));
  EXPECT_EQ(gone.get().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(cancelled.get().status().code(), StatusCode::kCancelled);
  Answer next = Submit("a", 4);
  gate.Open();
  EXPECT_TRUE(next.get().ok());
  EXPECT_EQ(journal_.lines(), (std::vector<std::string>{"a 1", "a 4"}));
}

TEST_F(ResidentRoomTest, AStopIsToldToWhoWaitsForRoomAtOnce) {
  auto [gate, busy] = StartBusy();
  Answer waits = SubmitForRoom("b", 2);
  Answer later = Submit("a", 3);
  all_->StopLoading();
  EXPECT_EQ(waits.get().status().message(), "the server is shutting down");
  gate.Open();
  EXPECT_TRUE(busy.get().ok());
  EXPECT_TRUE(later.get().ok()) << "its model is in memory";
}

TEST_F(ResidentRoomTest, ASchedulerEndsWhileItWaitsForRoom) {
  auto [gate, busy] = StartBusy();
  Answer waits = SubmitForRoom("b", 2);
  served_.erase("b");
  EXPECT_EQ(waits.get().status().code(), StatusCode::kUnavailable);
  gate.Open();
  EXPECT_TRUE(busy.get().ok());
}

// Files on a disk that sleeps: who waits looks after its clients before they have been opened.
TEST_F(ResidentRoomTest, ACheckThatTakesLongerThanATurnKeepsNobodyOut) {
  Start(150);
  Clock::time_point turn_ends;
  Serve("b", [&turn_ends] {
    while (Clock::now() < turn_ends) std::this_thread::yield();
    return OkStatus();
  });
  Serve("a");
  ResidentModel& a = *served_.at("a").model;
  ResidentModel& b = *served_.at("b").model;
  a.Begin();  // never idle
  const Clock::time_point oldest = Clock::now();
  std::atomic<bool> loaded = false;
  std::thread client([&] {
    while (!loaded) EXPECT_TRUE(Submit("a", 1).get().ok());
  });
  for (int turn = 0; turn < 200 && !loaded; ++turn) {
    turn_ends = Clock::now() + milliseconds(10);
    const auto acquired = b.Acquire({oldest, turn_ends});
    EXPECT_TRUE(acquired.ok());
    loaded = acquired.ok() && acquired->runner != nullptr;
  }
  EXPECT_TRUE(loaded.exchange(true));
  client.join();
  a.End({});
}

// Three models that are never idle share room for one: nobody fails, nobody starves.
TEST_F(ResidentRoomTest, ModelsThatAreAlwaysAskedForShareTheRoom) {
  Start(150, /*on_demand=*/true);
  const std::vector<std::string> ids = {"a", "b", "c"};
  for (const std::string& id : ids) Serve(id);
  std::vector<std::thread> clients;
  std::atomic<int32_t> next = 100;
  for (int client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 30; ++i) {
        const auto answer = Submit(ids[static_cast<size_t>(client) % ids.size()], next++).get();
        EXPECT_TRUE(answer.ok()) << answer.status().ToString();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(next, 280);
}

}  // namespace
}  // namespace pergola::api
