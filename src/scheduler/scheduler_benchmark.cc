// What the scheduler costs a lone request on an idle engine: from Submit or RunBlocking to the
// answer, around a model that computes nothing, beside a hand-over to another thread and back.
#include <benchmark/benchmark.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace pergola::scheduler {
namespace {

constexpr int64_t kWidth = 384;
constexpr int64_t kTokens = 128;

class NullOutputs : public engine::Outputs {
 public:
  Result<ConstF32Matrix> Rows(int64_t, OutputKind) override {
    static const std::vector<float> row(kWidth, 0.5f);
    return ConstF32Matrix(row.data(), 1, kWidth);
  }
};

class NullRunner : public engine::Runner {
 public:
  int64_t step_tokens() const override { return 512; }
  int64_t width(OutputKind) const override { return kWidth; }
  Result<std::unique_ptr<engine::Outputs>> Run(std::span<const engine::SequenceInput>) override {
    return std::unique_ptr<engine::Outputs>(new NullOutputs);
  }
};

Scheduler MakeScheduler() {
  service::ModelInfo info;
  info.id = "null";
  info.widths[static_cast<size_t>(OutputKind::kEmbedding)] = kWidth;
  info.max_tokens = kTokens;
  info.vocab_size = 1000;
  SchedulerOptions options;
  options.cache_bytes = 0;
  options.single_flight = false;
  return Scheduler(std::move(info), std::make_unique<NullRunner>(), options);
}

service::InferenceRequest Request() {
  service::InferenceRequest request;
  request.sequences.push_back({std::vector<int32_t>(kTokens, 7)});
  return request;
}

// A place where one thread waits for another.
class Bell {
 public:
  void Ring() {
    const std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

void BM_HandOverAndBack(benchmark::State& state) {
  Bell there;
  Bell back;
  bool stop = false;
  std::thread other([&] {
    while (true) {
      there.Await();
      if (stop) return;
      back.Ring();
    }
  });
  for (auto _ : state) {
    there.Ring();
    back.Await();
  }
  stop = true;
  there.Ring();
  other.join();
}
BENCHMARK(BM_HandOverAndBack)->UseRealTime();

void BM_Submit(benchmark::State& state) {
  Scheduler scheduler = MakeScheduler();
  Bell answered;
  for (auto _ : state) {
    bool ok = false;
    scheduler.Submit(Request(), [&](const Result<service::InferenceOutput>& output) {
      ok = output.ok() && output->sequences.size() == 1;
      answered.Ring();
    });
    answered.Await();
    if (!ok) state.SkipWithError("no answer");
  }
}
BENCHMARK(BM_Submit)->UseRealTime();

void BM_RunBlocking(benchmark::State& state) {
  Scheduler scheduler = MakeScheduler();
  for (auto _ : state) {
    const auto output = scheduler.RunBlocking(Request());
    if (!output.ok() || output->sequences.size() != 1) state.SkipWithError("no answer");
  }
}
BENCHMARK(BM_RunBlocking)->UseRealTime();

}  // namespace
}  // namespace pergola::scheduler
