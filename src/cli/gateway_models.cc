#include "cli/gateway_models.h"

#include <chrono>
#include <cstdio>
#include <utility>

namespace pergola::cli {
namespace {

constexpr std::chrono::milliseconds kAskTimeout{500};
constexpr std::chrono::milliseconds kAskPause{100};  // a refused connection answers at once

// What the backends call the model `id`: the same, or whatever they serve if that is all.
Result<service::ModelInfo> FindInfo(const std::vector<service::ModelInfo>& models,
                                    const std::string& id, bool only) {
  for (const service::ModelInfo& info : models) {
    if (info.id == id) return info;
  }
  if (only && models.size() == 1) return models[0];
  return NotFoundError("the backends do not serve '" + id + "'");
}

}  // namespace

Result<std::unique_ptr<GatewayModels>> GatewayModels::Open(GatewayModelsOptions options) {
  std::unique_ptr<GatewayModels> models(new GatewayModels(std::move(options)));
  for (const ModelLocation& location : models->options_.locations) {
    auto files = api::TextFiles::Open(location.path.string());
    if (!files.ok()) return files.status().WithContext(location.id);
    models->files_.push_back(std::move(*files));
  }
  PERGOLA_ASSIGN_OR_RETURN(
      auto directory, BackendDirectory::Make(
                          models->options_.backends,
                          [stop = models->stop_.get_token(), lookup = models->options_.lookup](
                              const std::string& name) { return ResolveHost(name, stop, lookup); },
                          models->options_.remote));
  models->directory_ = std::make_unique<BackendDirectory>(std::move(directory));
  return models;
}

Status GatewayModels::Ask() {
  directory_->Refresh();
  Status status = UnavailableError("no backend answers");
  if (!directory_->status().ok()) status = directory_->status();
  for (const Backend& backend : directory_->backends()) {
    if (stop_.stop_requested()) break;
    const auto remote = backend.service->FetchModels(kAskTimeout);
    if (remote.ok()) {
      status = Take(*remote);
      if (status.ok()) return status;
    } else if (status.code() == StatusCode::kUnavailable) {
      status = UnavailableError("no backend answers: " + remote.status().message());
    }
  }
  return status;
}

Status GatewayModels::Check(const text::TextSettings& settings) const {
  for (size_t i = 0; i < files_.size(); ++i) {
    auto text = files_[i].MakeOwnText();
    if (text.ok()) text = text::WithSettings(std::move(*text), settings);
    if (!text.ok()) return text.status().WithContext(options_.locations[i].id);
  }
  return OkStatus();
}

Status GatewayModels::Take(const std::vector<service::ModelInfo>& remote) {
  std::vector<gateway::ServedModel> served;
  std::vector<std::string> their_ids;
  for (size_t i = 0; i < files_.size(); ++i) {
    const std::string& id = options_.locations[i].id;
    PERGOLA_ASSIGN_OR_RETURN(service::ModelInfo info, FindInfo(remote, id, files_.size() == 1));
    PERGOLA_ASSIGN_OR_RETURN(auto text, files_[i].MakeText(info));
    their_ids.push_back(std::exchange(info.id, id));
    info.rows_identity.clear();  // the others have not been asked
    served.push_back({nullptr, std::move(info), std::move(text)});
  }
  for (size_t i = 0; i < served.size(); ++i) {
    tiers_.push_back(MakeTier(served[i].info, their_ids[i]));
    served[i].service = tiers_[i].cached;
    std::fprintf(stderr, "%s: %s, %s, %zu backends\n", served[i].info.id.c_str(),
                 served[i].info.architecture.c_str(), served[i].info.numeric_class.c_str(),
                 directory_->backends().size());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  served_ = std::move(served);
  known_ = true;
  return OkStatus();
}

std::vector<gateway::Replica> GatewayModels::ReplicasOf(const std::string& their_id) const {
  std::vector<gateway::Replica> replicas;
  for (const Backend& backend : directory_->backends()) {
    replicas.push_back({backend.address, backend.service, their_id});
  }
  return replicas;
}

GatewayModels::Tier GatewayModels::MakeTier(const service::ModelInfo& info,
                                            const std::string& their_id) const {
  Tier tier;
  tier.their_id = their_id;
  tier.replicas =
      std::make_shared<gateway::ReplicaSet>(info, ReplicasOf(their_id), options_.replicas);
  tier.cached = std::make_shared<scheduler::CachedService>(tier.replicas, options_.cache);
  const auto add_source = [this, &info](const auto& part) {
    options_.metrics->AddSource([part, id = info.id] {
      std::vector<service::MetricSample> samples = part->Metrics();
      for (service::MetricSample& sample : samples) sample.labels.emplace_back("model", id);
      return samples;
    });
  };
  add_source(tier.replicas);
  add_source(tier.cached);
  return tier;
}

std::optional<std::string> GatewayModels::IdentityOf(
    const Tier& tier, const std::vector<std::vector<service::ModelInfo>>& told) const {
  std::optional<std::string> identity;
  for (const std::vector<service::ModelInfo>& models : told) {
    for (const service::ModelInfo& info : models) {
      if (info.id != tier.their_id) continue;
      if (identity && *identity != info.rows_identity) return "";
      identity = info.rows_identity;
    }
  }
  return identity;
}

bool GatewayModels::Refresh() {
  if (directory_->Refresh()) {
    std::fprintf(stderr, "%zu backends\n", directory_->backends().size());
    for (const Tier& tier : tiers_) tier.replicas->SetReplicas(ReplicasOf(tier.their_id));
  }
  std::vector<std::vector<service::ModelInfo>> told;
  for (const Backend& backend : directory_->backends()) {
    if (stop_.stop_requested()) return false;
    auto models = backend.service->FetchModels(kAskTimeout);
    if (models.ok()) told.push_back(std::move(*models));
  }
  bool changed = false;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const std::optional<std::string> identity = IdentityOf(tiers_[i], told);
    if (!identity || identity == tiers_[i].identity) continue;
    tiers_[i].identity = identity;
    tiers_[i].cached->SetIdentity(*identity);
    std::fprintf(stderr, "%s: the cache keeps %s\n", served_[i].info.id.c_str(),
                 identity->empty() ? "no rows: the backends do not compute the same" : "rows");
    const std::lock_guard<std::mutex> lock(mutex_);
    served_[i].info.rows_identity = *identity;
    changed = true;
  }
  return changed;
}

BackendWatch::BackendWatch(GatewayModels& models, std::chrono::milliseconds refresh,
                           std::function<void()> changed,
                           std::function<void(const Status&)> not_yet)
    : models_(models),
      refresh_(refresh),
      changed_(std::move(changed)),
      not_yet_(std::move(not_yet)) {
  thread_ = std::thread([this] { Run(); });
}

BackendWatch::~BackendWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  models_.Stop();
  thread_.join();
}

bool BackendWatch::Pause(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return !stop_.wait_for(lock, time, [this] { return stopping_; });
}

void BackendWatch::Run() {
  do {
    const Status status = models_.Ask();
    if (!status.ok()) {
      not_yet_(status);
      continue;
    }
    changed_();
    do {
      if (models_.Refresh()) changed_();
    } while (Pause(refresh_));
    return;
  } while (Pause(kAskPause));
}

}  // namespace pergola::cli
