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

Status ShuttingDown() { return UnavailableError("the server is shutting down"); }

}  // namespace

Result<ResidentModel::Acquired> ResidentModel::Acquire(const Need& need) {
  const std::lock_guard<std::mutex> one_at_a_time(load_mutex_);
  PERGOLA_RETURN_IF_ERROR(CheckRetry());
  PERGOLA_RETURN_IF_ERROR(CheckSource());
  ResidentModels::UnloadedList unloaded;
  {
    std::unique_lock<std::mutex> lock(all_.mutex_);
    Status missing = all_.AwaitTurn(*this, need, lock, &unloaded);
    if (!missing.ok() && all_.stopping_) return missing;
    if (!missing.ok()) return Acquired{.runner = nullptr, .missing = std::move(missing)};
    if (runner_ != nullptr) return Acquired{.runner = runner_};
  }
  all_.Release(std::move(unloaded));
  return Load();
}

Status ResidentModel::CheckRetry() const {
  if (failure_.in_a_row == 0) return OkStatus();
  if (failure_.next_try <= all_.options_.now()) return OkStatus();
  if (source_.stamp && source_.stamp() != failure_.stamp) return OkStatus();
  return NotLoaded();
}

// Before others are unloaded for it. Whoever waits comes back every second or so; a check each time
// would cost it its place in line meanwhile.
Status ResidentModel::CheckSource() {
  {
    const std::lock_guard<std::mutex> lock(all_.mutex_);
    if (runner_ != nullptr || all_.stopping_ || !source_.check) return OkStatus();
  }
  std::string stamp = source_.stamp ? source_.stamp() : "";
  if (checked_ == stamp) return OkStatus();
  const Status status = source_.check();
  if (!status.ok()) return NoteFailure(status, std::move(stamp));
  checked_ = std::move(stamp);
  return status;
}

Status ResidentModel::NotLoaded() const {
  const auto wait = failure_.next_try - all_.options_.now();
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait).count();
  return InternalError("the model '" + id_ + "' could not be loaded; the server's log says why; " +
                       "it is tried again in " + std::to_string(seconds) + " s");
}

Result<ResidentModel::Acquired> ResidentModel::Load() {
  checked_.reset();
  std::string stamp = source_.stamp ? source_.stamp() : "";
  const Clock::time_point start = Clock::now();
  Result<RunnerPtr> loaded = source_.load([this] { return all_.stopping_.load(); });
  const std::chrono::nanoseconds load_time =
      std::max<std::chrono::nanoseconds>(Clock::now() - start, std::chrono::nanoseconds(1));
  if (!loaded.ok()) return NoteFailure(loaded.status(), std::move(stamp));
  failure_ = {};
  all_.options_.tell(id_ + ": loaded in " + SecondsText(load_time));
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  loading_ = false;
  ++loads_;
  load_seconds_ += std::chrono::duration<double>(load_time).count();
  runner_ = std::move(*loaded);
  loaded_at_ = last_used_ = all_.options_.now();
  expires_ = service::ExpiryOf(last_used_, all_.options_.keep_alive);
  all_.changed_.notify_all();
  return Acquired{.runner = runner_, .load_time = load_time};
}

Status ResidentModel::NoteFailure(const Status& status, std::string stamp) {
  checked_.reset();
  const bool ended = status.code() == StatusCode::kCancelled;
  if (!ended) {
    auto wait = all_.options_.first_retry;
    for (int i = 0; i < failure_.in_a_row && wait < all_.options_.last_retry; ++i) wait *= 2;
    wait = std::min(wait, all_.options_.last_retry);
    failure_ = {failure_.in_a_row + 1, all_.options_.now() + wait, std::move(stamp)};
  }
  all_.options_.tell(id_ + (ended ? ": loading was ended" : ": not loaded: " + status.ToString()));
  {
    const std::lock_guard<std::mutex> lock(all_.mutex_);
    loading_ = false;
    if (!ended) ++failed_loads_;
    all_.changed_.notify_all();
  }
  return ended ? ShuttingDown() : NotLoaded();
}

void ResidentModel::Wake() {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  woken_ = true;
  all_.changed_.notify_all();
}

void ResidentModel::Begin() {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  ++requests_;
}

void ResidentModel::End(const Use& use) {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  --requests_;
  NoteUse(use);
  all_.changed_.notify_all();
}

void ResidentModel::Touch(const Use& use) {
  const std::lock_guard<std::mutex> lock(all_.mutex_);
  NoteUse(use);
}

void ResidentModel::NoteUse(const Use& use) {
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
                                                           ResidentModel::Source source) {
  if (options_.budget_bytes > 0 && bytes > options_.budget_bytes) {
    return InvalidArgumentError("its weights take " + std::to_string(bytes) +
                                " bytes, more than the memory budget of " +
                                std::to_string(options_.budget_bytes));
  }
  std::unique_ptr<ResidentModel> model(
      new ResidentModel(*this, std::move(id), bytes, std::move(source)));
  ResidentModel* const added = model.get();
  UnloadedList unloaded;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    added->loaded_at_ = added->last_used_ = options_.now();
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

Status ResidentModels::AwaitTurn(ResidentModel& model, const ResidentModel::Need& need,
                                 std::unique_lock<std::mutex>& lock, UnloadedList* unloaded) {
  Status status = TakeTurn(model, need.oldest, unloaded);
  const Clock::time_point begin = Clock::now();
  if (status.ok() || stopping_ || need.until <= begin) return status;
  model.waits_since_ = need.oldest;
  changed_.notify_all();  // somebody may wait for its rest
  bool in_time = true;
  while (!status.ok() && in_time && !stopping_ && !std::exchange(model.woken_, false)) {
    in_time = changed_.wait_until(lock, need.until) == std::cv_status::no_timeout;
    status = TakeTurn(model, need.oldest, unloaded);
  }
  model.waits_since_.reset();
  changed_.notify_all();  // or for its turn
  model.wait_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  return status;
}

Status ResidentModels::TakeTurn(ResidentModel& model, Clock::time_point oldest,
                                UnloadedList* unloaded) {
  if (stopping_) return model.runner_ != nullptr ? OkStatus() : ShuttingDown();
  const ResidentModel* const first = FirstWaiting(model, oldest);
  if (model.runner_ == nullptr) {
    if (first != nullptr) {
      return UnavailableError("the model '" + model.id_ + "' waits for memory behind '" +
                              first->id_ + "', which was asked for before");
    }
    PERGOLA_RETURN_IF_ERROR(MakeRoom(model, unloaded));
    model.loading_ = true;
    return OkStatus();
  }
  if (first == nullptr || first->runner_ != nullptr) return OkStatus();
  int64_t excess = ExcessOf(*first);
  for (const ResidentModel* gives_way : Loaded(*first)) {
    if (excess <= 0) break;
    if (gives_way == &model) return NoRoom(model);
    excess -= gives_way->bytes_;
  }
  return OkStatus();
}

const ResidentModel* ResidentModels::FirstWaiting(const ResidentModel& model,
                                                  Clock::time_point oldest) const {
  const ResidentModel* first = nullptr;
  for (const auto& other : models_) {
    if (other.get() == &model || !other->waits_since_ || *other->waits_since_ >= oldest) continue;
    if (first == nullptr || *other->waits_since_ < *first->waits_since_) first = other.get();
  }
  return first;
}

std::vector<ResidentModel*> ResidentModels::Loaded(const ResidentModel& model) const {
  std::vector<ResidentModel*> loaded;
  for (const auto& other : models_) {
    if (other->runner_ != nullptr && other.get() != &model) loaded.push_back(other.get());
  }
  const auto place = [](const ResidentModel* other) {
    const bool rests = other->at_rest();
    return std::pair(!rests, rests ? other->last_used_ : other->loaded_at_);
  };
  std::stable_sort(
      loaded.begin(), loaded.end(),
      [&](const ResidentModel* a, const ResidentModel* b) { return place(a) < place(b); });
  return loaded;
}

int64_t ResidentModels::ExcessOf(const ResidentModel& model) const {
  if (options_.budget_bytes <= 0) return 0;
  return bytes_taken() + model.bytes_ - options_.budget_bytes;
}

Status ResidentModels::NoRoom(const ResidentModel& model) const {
  int64_t in_use = bytes_taken();
  for (const ResidentModel* other : Loaded(model)) {
    if (other->at_rest()) in_use -= other->bytes_;
  }
  if (model.runner_ != nullptr) in_use -= model.bytes_;
  return UnavailableError("the model '" + model.id_ + "' takes " + std::to_string(model.bytes_) +
                          " bytes of memory; of the budget of " +
                          std::to_string(options_.budget_bytes) + " models in use hold " +
                          std::to_string(in_use));
}

Status ResidentModels::MakeRoom(const ResidentModel& model, UnloadedList* unloaded) {
  int64_t excess = ExcessOf(model);
  std::vector<ResidentModel*> goes;
  for (ResidentModel* other : Loaded(model)) {
    if (excess <= 0 || !other->at_rest()) break;
    goes.push_back(other);
    excess -= other->bytes_;
  }
  if (excess > 0) return NoRoom(model);
  for (ResidentModel* other : goes) Unload(*other, "for " + model.id_, unloaded);
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
    if (stopping_) return;  // a request on its way could not load it again
    const Clock::time_point now = options_.now();
    for (const auto& model : models_) {
      if (model->runner_ == nullptr || !model->idle() || model->expires_ > now) continue;
      Unload(*model, "as nobody asked for it", &unloaded);
    }
  }
  Release(std::move(unloaded));
}

void ResidentModels::StopLoading() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
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
  add("pergola_model_wait_seconds_total", "Time spent in waiting for memory of the budget.",
      MetricKind::kCounter, [](const ResidentModel& model) { return model.wait_seconds_; });
  add("pergola_model_waiting", "1: requests for the model wait for memory of the budget.",
      MetricKind::kGauge,
      [](const ResidentModel& model) { return model.waits_since_.has_value() ? 1 : 0; });
  add("pergola_model_unloads_total", "Times that weights were dropped from memory.",
      MetricKind::kCounter, [](const ResidentModel& model) { return model.unloads_; });
  add("pergola_model_resident_bytes", "Bytes of weights in memory.", MetricKind::kGauge,
      [](const ResidentModel& model) { return model.runner_ != nullptr ? model.bytes_ : 0; });
  return samples;
}

}  // namespace pergola::api
