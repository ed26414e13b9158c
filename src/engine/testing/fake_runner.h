// A Runner that computes sums of ids instead of a model, as slowly as a test wants.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine/runner.h"

namespace pergola::engine {

// Rows made from the ids: pooled [sum of ids, tokens]; token vectors [id, position from 0].
class FakeOutputs : public Outputs {
 public:
  explicit FakeOutputs(std::vector<std::vector<float>> rows) : rows_(std::move(rows)) {}
  Result<ConstF32Matrix> Rows(int64_t index, OutputKind) override {
    const std::vector<float>& values = rows_[static_cast<size_t>(index)];
    return ConstF32Matrix(values.data(), static_cast<int64_t>(values.size()) / 2, 2);
  }

 private:
  std::vector<std::vector<float>> rows_;
};

inline constexpr int32_t kPoisonId = 66;   // gives a row that is not finite
inline constexpr int32_t kFailureId = 67;  // fails the whole batch

// A gate that tests open, so that a batch "runs" exactly as long as they want.
class Gate {
 public:
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void AwaitArrival() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

class FakeRunner : public Runner {
 public:
  FakeRunner(Gate* gate, std::vector<std::vector<std::vector<int32_t>>>* batches)
      : gate_(gate), batches_(batches) {}
  int64_t step_tokens() const override { return 16; }
  int64_t width(OutputKind) const override { return 2; }
  Result<std::unique_ptr<Outputs>> Run(std::span<const SequenceInput> batch) override {
    EXPECT_FALSE(running_.exchange(true)) << "two batches at once";
    if (gate_ != nullptr) gate_->Pass();
    std::vector<std::vector<float>> rows;
    std::vector<std::vector<int32_t>> seen;
    bool failed = false;
    for (const SequenceInput& input : batch) {
      const std::vector<int32_t>& ids = input.sequence->ids;
      std::vector<float> values = {0, static_cast<float>(ids.size())};
      std::vector<float> tokens;
      for (const int32_t id : ids) {
        values[0] += static_cast<float>(id);
        tokens.push_back(static_cast<float>(id));
        tokens.push_back(static_cast<float>(tokens.size() / 2));
        if (id == kPoisonId) values[0] = std::numeric_limits<float>::quiet_NaN();
        failed = failed || id == kFailureId;
      }
      rows.push_back(input.outputs.Has(OutputKind::kTokenVectors) ? tokens : values);
      seen.push_back(ids);
    }
    batches_->push_back(std::move(seen));
    running_ = false;
    if (failed) return InternalError("device lost");
    return std::unique_ptr<Outputs>(new FakeOutputs(std::move(rows)));
  }

 private:
  Gate* gate_;
  std::vector<std::vector<std::vector<int32_t>>>* batches_;
  std::atomic<bool> running_ = false;
};

}  // namespace pergola::engine
