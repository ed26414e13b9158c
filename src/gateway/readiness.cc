#include "gateway/readiness.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "service/probe.h"

namespace pergola::gateway {
namespace {

constexpr std::string_view kReady = "{\"status\":\"ok\"}";

Failure NotReady(const std::string& reason) {
  return {UnavailableError("not ready: " + reason), "", "", false};
}

}  // namespace

// Shared by the callbacks of one answer's probes; the last one answers.
struct Readiness::Probe {
  std::shared_ptr<Exchange> exchange;
  std::atomic<size_t> pending;
  Probe(std::shared_ptr<Exchange> whose, size_t count)
      : exchange(std::move(whose)), pending(count) {}
};

Readiness::Readiness(const std::vector<ServedModel>* models)
    : models_(*models), last_(models->size()) {
  for (auto& last : last_) last = std::numeric_limits<service::Clock::rep>::min();
}

void Readiness::Note(const ServedModel* model) {
  const auto place = static_cast<size_t>(model - models_.data());
  last_[place].store(service::Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

void Readiness::Answer(std::shared_ptr<Exchange> exchange) {
  const service::Clock::time_point now = service::Clock::now();
  std::vector<const ServedModel*> stale;
  for (size_t i = 0; i < models_.size(); ++i) {
    const service::Clock::rep last = last_[i].load(std::memory_order_relaxed);
    const service::Clock::rep oldest = (now - kFresh).time_since_epoch().count();
    if (last < oldest && models_[i].service->residence().loaded) stale.push_back(&models_[i]);
  }
  if (stale.empty()) return exchange->SendJson(std::string(kReady));
  exchange->StartDeadline(now + kProbeTimeout, NotReady("a model did not answer within 2 s"));
  const auto probe = std::make_shared<Probe>(exchange, stale.size());
  for (const ServedModel* model : stale) {
    service::InferenceRequest request =
        service::MakeProbe(model->info, probes_.fetch_add(1, std::memory_order_relaxed));
    request.deadline = now + kProbeTimeout;
    model->service->Submit(std::move(request),
                           [this, probe, model](Result<service::InferenceOutput> output) {
                             // One that has left memory meanwhile is as good as it was before.
                             if (!output.ok() && model->service->residence().loaded) {
                               probe->exchange->Fail(NotReady(output.status().message()));
                             } else if (output.ok()) {
                               Note(model);
                             }
                             if (probe->pending.fetch_sub(1) == 1)
                               probe->exchange->SendJson(std::string(kReady));
                           });
  }
}

}  // namespace pergola::gateway
