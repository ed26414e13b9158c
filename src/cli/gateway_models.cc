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
  for (const std::string& address : models->options_.backends) {
    models->backends_.push_back(
        {address, std::make_shared<rpc::RemoteService>(address, models->options_.remote)});
  }
  return models;
}

Status GatewayModels::Ask() {
  Status status = UnavailableError("no backend answers");
  for (const Backend& backend : backends_) {
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

Status GatewayModels::Take(const std::vector<service::ModelInfo>& remote) {
  std::vector<gateway::ServedModel> served;
  std::vector<std::string> their_ids;
  for (size_t i = 0; i < files_.size(); ++i) {
    const std::string& id = options_.locations[i].id;
    PERGOLA_ASSIGN_OR_RETURN(service::ModelInfo info, FindInfo(remote, id, files_.size() == 1));
    PERGOLA_ASSIGN_OR_RETURN(auto text, files_[i].MakeText(info));
    their_ids.push_back(std::exchange(info.id, id));
    served.push_back({nullptr, std::move(info), std::move(text)});
  }
  for (size_t i = 0; i < served.size(); ++i) {
    service::ModelInfo info = served[i].info;
    info.id = their_ids[i];
    served[i].service = MakeReplicas(served[i].info.id, info);
    std::fprintf(stderr, "%s: %s, %s, %zu backends\n", served[i].info.id.c_str(),
                 info.architecture.c_str(), info.numeric_class.c_str(), backends_.size());
  }
  served_ = std::move(served);
  known_ = true;
  return OkStatus();
}

std::shared_ptr<gateway::ReplicaSet> GatewayModels::MakeReplicas(
    const std::string& id, const service::ModelInfo& remote) const {
  std::vector<gateway::Replica> replicas;
  for (const Backend& backend : backends_) {
    replicas.push_back({backend.address, backend.service, remote.id});
  }
  service::ModelInfo info = remote;
  info.id = id;
  auto set = std::make_shared<gateway::ReplicaSet>(info, std::move(replicas), options_.replicas);
  options_.metrics->AddSource([set, id] {
    std::vector<service::MetricSample> samples = set->Metrics();
    for (service::MetricSample& sample : samples) sample.labels.emplace_back("model", id);
    return samples;
  });
  return set;
}

BackendWait::BackendWait(GatewayModels& models, std::function<void()> known,
                         std::function<void(const Status&)> not_yet)
    : models_(models), known_(std::move(known)), not_yet_(std::move(not_yet)) {
  thread_ = std::thread([this] { Run(); });
}

BackendWait::~BackendWait() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void BackendWait::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const Status status = models_.Ask();
    if (status.ok()) return known_();
    not_yet_(status);
    lock.lock();
    stop_.wait_for(lock, kAskPause, [this] { return stopping_; });
  }
}

}  // namespace pergola::cli
