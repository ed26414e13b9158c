#include "api/resident_models.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace pergola::api {
namespace {

using service::Clock;
using service::MetricKind;
using service::MetricSample;

std::string SecondsText(std::chrono::nanoseconds duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", std::chrono::duration<double>(duration).count());
  return text;
}

}  // namespace

Result<ResidentModel::Acquired> ResidentModel::Acquire() {
  const std::lock_guard<std::mutex> one_at_a_time(load_mutex_);
  ResidentModels::UnloadedList unloaded;
  {
    const std::lock_guard<std::mutex> lock(all_.mutex_);
    if (runner_ != nullptr) return Acquired{runner_};
    PERGOLA_RETURN_IF_ERROR(all_.MakeRoom(*this, &unloaded));
    loading_ = true;
  }
  all_.Release(std::move(unloaded));
  const Clock::time_point start = Clock::now();
  Result<RunnerPtr> loaded = load_();
  const std::chrono::nanoseconds load_time =
      std::max<std::chrono::nanoseconds>(Clock::now() - start, std::chrono::nanoseconds(1));
  if (loaded.ok()) {
    all_.options_.tell(id_ + ": loaded in " + SecondsText(load_time));
  } else {
    all_.options_.tell(id_ + ": not loaded: " + loaded.status().ToString());
  }
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  loading_ = false;
  if (!loaded.ok()) {
    ++failed_loads_;
    return InternalError("the model '" + id_ + "' could not be loaded; the server's log says why");
  }
  ++loads_;
  load_seconds_ += std::chrono::duration<double>(load_time).count();
  runner_ = std::move(*loaded);
  last_used_ = all_.options_.now();
  expires_ = service::ExpiryOf(last_used_, all_.options_.keep_alive);
  return Acquired{runner_, load_time};
}

void ResidentModel::Begin() {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  ++requests_;
}

void ResidentModel::End(const Use& use) {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  --requests_;
  if (use.probe) return;
  last_used_ = all_.options_.now();
  expires_ = service::ExpiryOf(last_used_, use.keep_alive.value_or(all_.options_.keep_alive));
}

service::Residence ResidentModel::residence() const {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  return {runner_ != nullptr, bytes_, expires_};
}

Result<std::shared_ptr<ResidentModel>> ResidentModels::Add(std::string id, int64_t bytes,
                                                           RunnerPtr runner,
                                                           ResidentModel::Load load) {
  if (options_.budget_bytes > 0 && bytes > options_.budget_bytes) {
    return InvalidArgumentError("its weights take " + std::to_string(bytes) +
                                " bytes, more than the memory budget of " +
                                std::to_string(options_.budget_bytes));
  }
  std::unique_ptr<ResidentModel> model(
      new ResidentModel(*this, std::move(id), bytes, std::move(load)));
  ResidentModel* const added = model.get();
  UnloadedList unloaded;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    added->last_used_ = options_.now();
    added->expires_ = service::ExpiryOf(added->last_used_, options_.keep_alive);
    // Without room, which requests of others may have taken, it begins unloaded.
    if (!options_.on_demand && MakeRoom(*added, &unloaded).ok()) {
      added->runner_ = std::move(runner);
    }
    models_.push_back(std::move(model));
  }
  Release(std::move(unloaded));
  return std::shared_ptr<ResidentModel>(shared_from_this(), added);
}

int64_t ResidentModels::bytes_taken() const {
  int64_t taken = 0;
  for (const auto& model : models_) {
    if (model->runner_ != nullptr || model->loading_) taken += model->bytes_;
  }
  return taken;
}

Status ResidentModels::MakeRoom(const ResidentModel& model, UnloadedList* unloaded) {
  if (options_.budget_bytes <= 0) return OkStatus();
  const int64_t taken = bytes_taken();
  int64_t excess = taken + model.bytes_ - options_.budget_bytes;
  std::vector<ResidentModel*> idle;
  int64_t idle_bytes = 0;
  for (const auto& other : models_) {
    if (other->runner_ == nullptr || !other->idle()) continue;
    idle.push_back(other.get());
    idle_bytes += other->bytes_;
  }
  if (excess > idle_bytes) {
    return UnavailableError("the model '" + model.id_ + "' takes " + std::to_string(model.bytes_) +
                            " bytes of memory; of the budget of " +
                            std::to_string(options_.budget_bytes) + " models in use hold " +
                            std::to_string(taken - idle_bytes));
  }
  std::sort(idle.begin(), idle.end(), [](const ResidentModel* a, const ResidentModel* b) {
    return a->last_used_ < b->last_used_;
  });
  for (size_t next = 0; excess > 0; ++next) {
    excess -= idle[next]->bytes_;
    Unload(*idle[next], "for " + model.id_, unloaded);
  }
  return OkStatus();
}

void ResidentModels::Unload(ResidentModel& model, std::string reason, UnloadedList* unloaded) {
  ++model.unloads_;
  unloaded->push_back({model.id_, std::move(reason), std::move(model.runner_)});
  model.runner_ = nullptr;
}

void ResidentModels::Release(UnloadedList unloaded) const {
  for (Unloaded& model : unloaded) {
    model.runner = nullptr;
    options_.tell(model.id + ": unloaded " + model.reason);
  }
}

void ResidentModels::UnloadExpired() {
  UnloadedList unloaded;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Clock::time_point now = options_.now();
    for (const auto& model : models_) {
      if (model->runner_ == nullptr || !model->idle() || model->expires_ > now) continue;
      Unload(*model, "as nobody asked for it", &unloaded);
    }
  }
  Release(std::move(unloaded));
}

std::vector<MetricSample> ResidentModels::Metrics() const {
  std::vector<MetricSample> samples;
  const auto add = [&](const char* name, const char* help, MetricKind kind, const auto& value) {
    for (const auto& model : models_) {
      samples.push_back(
          {name, help, kind, {{"model", model->id_}}, static_cast<double>(value(*model)), {}, {}});
    }
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  add("pergola_model_loads_total", "Times that weights were loaded again or on demand.",
      MetricKind::kCounter, [](const ResidentModel& model) { return model.loads_; });
  add("pergola_model_failed_loads_total", "Times that loading weights failed.",
      MetricKind::kCounter, [](const ResidentModel& model) { return model.failed_loads_; });
  add("pergola_model_load_seconds_total", "Time spent in loading weights.", MetricKind::kCounter,
      [](const ResidentModel& model) { return model.load_seconds_; });
  add("pergola_model_unloads_total", "Times that weights were dropped from memory.",
      MetricKind::kCounter, [](const ResidentModel& model) { return model.unloads_; });
  add("pergola_model_resident_bytes", "Bytes of weights in memory.", MetricKind::kGauge,
      [](const ResidentModel& model) { return model.runner_ != nullptr ? model.bytes_ : 0; });
  return samples;
}

}  // namespace pergola::api
