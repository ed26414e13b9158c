#include "server/health_monitor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace pergola::server {
namespace {

using service::InferenceCallback;
using service::InferenceRequest;

// Answers with `status`, or keeps the callback when told to hang.
class FakeService : public service::InferenceService {
 public:
  void Submit(InferenceRequest request, InferenceCallback done) override {
    ++requests;
    EXPECT_EQ(request.sequences.size(), 1U);
    if (hang) {
      held.push_back(std::move(done));
    } else if (status.ok()) {
      done(service::InferenceOutput{});
    } else {
      done(status);
    }
  }
  std::vector<service::ModelInfo> Models() const override { return {}; }

  Status status;
  bool hang = false;
  std::atomic<int> requests = 0;
  std::vector<InferenceCallback> held;
};

class HealthMonitorTest : public ::testing::Test {
 protected:
  void Start(HealthOptions options) {
    service::ModelInfo info;
    info.vocab_size = 10;
    info.max_tokens = 2;
    std::vector<ServedModel> models = {{fake_, info, nullptr}};
    monitor_ = std::make_unique<HealthMonitor>(models, options, [this](size_t index, bool serving) {
      EXPECT_EQ(index, 0U);
      if (reports_++ == 0) first_.set_value(serving);
    });
    monitor_->Start();
  }
  bool FirstReport() { return first_.get_future().get(); }

  std::shared_ptr<FakeService> fake_ = std::make_shared<FakeService>();
  std::promise<bool> first_;
  std::atomic<int> reports_ = 0;
  std::unique_ptr<HealthMonitor> monitor_;
};

TEST_F(HealthMonitorTest, ServesAfterAForwardPass) {
  Start({});
  EXPECT_TRUE(FirstReport());
  monitor_.reset();
  EXPECT_EQ(fake_->requests, 1);
  EXPECT_EQ(reports_, 1);
}

TEST_F(HealthMonitorTest, DoesNotServeWhenTheForwardPassFails) {
  fake_->status = InternalError("device lost");
  Start({});
  EXPECT_FALSE(FirstReport());
}

TEST_F(HealthMonitorTest, DoesNotServeWhenTheForwardPassHangs) {
  fake_->hang = true;
  Start({.fresh = std::chrono::milliseconds(4), .timeout = std::chrono::milliseconds(1)});
  EXPECT_FALSE(FirstReport());
  EXPECT_EQ(fake_->requests, 1);  // no second probe behind the first
  monitor_.reset();
  for (InferenceCallback& done : fake_->held) done(UnavailableError("late"));
}

TEST_F(HealthMonitorTest, AnAnsweredRequestSparesTheProbe) {
  fake_->hang = true;
  Start({});
  monitor_->Note(0);
  EXPECT_TRUE(FirstReport());
  monitor_.reset();
  for (InferenceCallback& done : fake_->held) done(UnavailableError("late"));
}

}  // namespace
}  // namespace pergola::server
