#include "server/health_monitor.h"

#include <atomic>
#include <optional>
#include <utility>

#include "service/probe.h"

namespace pergola::server {

using service::Clock;

struct HealthMonitor::State {
  explicit State(size_t models) : last_success(models), model(models) {}

  struct Model {
    std::optional<Clock::time_point> probed;  // a probe is under way since
    bool failed = false;                      // the last probe
    std::optional<bool> reported;
  };

  // Ticks of the last success; 0: none yet.
  std::vector<std::atomic<Clock::rep>> last_success;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<Model> model;
  uint64_t probes = 0;
  bool stopping = false;
};

HealthMonitor::HealthMonitor(std::vector<ServedModel> models, const HealthOptions& options,
                             Report report)
    : models_(std::move(models)),
      options_(options),
      report_(std::move(report)),
      state_(std::make_shared<State>(models_.size())) {}

void HealthMonitor::Start() {
  thread_ = std::thread([this] { Loop(); });
}

HealthMonitor::~HealthMonitor() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HealthMonitor::Note(size_t index) {
  state_->last_success[index].store(Clock::now().time_since_epoch().count(),
                                    std::memory_order_relaxed);
}

void HealthMonitor::Probe(size_t index) {
  service::InferenceRequest request;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    State::Model& model = state_->model[index];
    if (model.probed) return;
    model.probed = Clock::now();
    request = service::MakeProbe(models_[index].info, state_->probes++);
  }
  models_[index].service->Submit(
      std::move(request), [state = state_, index](const Result<service::InferenceOutput>& output) {
        const std::lock_guard<std::mutex> lock(state->mutex);
        State::Model& model = state->model[index];
        model.probed.reset();
        model.failed = !output.ok();
        if (output.ok()) {
          state->last_success[index].store(Clock::now().time_since_epoch().count(),
                                           std::memory_order_relaxed);
        }
        state->changed.notify_all();
      });
}

void HealthMonitor::Loop() {
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  while (!state.stopping) {
    for (size_t index = 0; index < models_.size(); ++index) {
      State::Model& model = state.model[index];
      const Clock::time_point now = Clock::now();
      const auto last = Clock::time_point(
          Clock::duration(state.last_success[index].load(std::memory_order_relaxed)));
      const bool fresh = last.time_since_epoch().count() != 0 && now - last < options_.fresh;
      const bool late = model.probed && now - *model.probed > options_.timeout;
      if (fresh) model.failed = false;
      if ((fresh || model.failed || late) && model.reported != fresh) {
        model.reported = fresh;
        lock.unlock();
        report_(index, fresh);
        lock.lock();
      }
      // In good time before the last success is too old to count.
      if (model.probed || (fresh && now - last < options_.fresh / 2)) continue;
      lock.unlock();
      Probe(index);
      lock.lock();
    }
    if (state.stopping) return;
    state.changed.wait_for(lock, options_.fresh / 4);
  }
}

}  // namespace pergola::server
