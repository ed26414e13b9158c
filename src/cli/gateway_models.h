// The models of a gateway: text sides from files here, facts and computing from servers elsewhere.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto models, GatewayModels::Open(options));  // files only
//   if (models->Ask().ok()) Install(models->Served());                    // a server has answered
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/text_side.h"
#include "cli/backend_directory.h"
#include "cli/model_location.h"
#include "core/host_addresses.h"
#include "gateway/metrics.h"
#include "gateway/replica_set.h"
#include "gateway/routes.h"
#include "rpc/remote_service.h"
#include "scheduler/cached_service.h"
#include "text/text_settings.h"

namespace pergola::cli {

struct GatewayModelsOptions {
  std::vector<ModelLocation> locations;
  std::vector<std::string> backends;  // as BackendDirectory::Make takes them
  HostLookup lookup = LookUpHost;
  gateway::ReplicaSetOptions replicas;
  rpc::RemoteServiceOptions remote;
  scheduler::CachedService::Options cache;  // of each model
  // Gets the metrics of each replica set and cache. Second owner: the HTTP server's.
  std::shared_ptr<gateway::Metrics> metrics;
};

// Ask and Refresh from one thread; the rest thread-safe.
class GatewayModels {
 public:
  // Opens tokenizers and prompts; talks to nobody. Errors of engine::OpenModelFiles, naming the
  // model, and of BackendDirectory::Make.
  static Result<std::unique_ptr<GatewayModels>> Open(GatewayModelsOptions options);

  // Asks the backends, one after the other, for the facts of the models until one has them all;
  // blocks for half a second each at most. OK: known from now on. Else why not: UNAVAILABLE (none
  // answers), NOT_FOUND or INVALID_ARGUMENT (what answers serves other models).
  Status Ask();
  bool known() const { return known_.load(); }

  // INVALID_ARGUMENT naming the model whose files do not allow `settings`. Whether backends are
  // known does not matter.
  Status Check(const text::TextSettings& settings) const;

  // From any thread: Ask and Refresh end soon, with what they have.
  void Stop() { stop_.request_stop(); }

  // Once known: resolves the names of backends again; those that came get requests, those that went
  // none any more. Asks all for the identity of their rows: rows of a model are kept in the cache
  // as long as all backends that answer tell the same. True: that has changed, and Served with it.
  bool Refresh();

  // What is served, once known.
  std::vector<gateway::ServedModel> Served() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return served_;
  }

 private:
  explicit GatewayModels(GatewayModelsOptions options) : options_(std::move(options)) {}
  // A model once known. Second owners of both: served_, metrics.
  struct Tier {
    std::shared_ptr<gateway::ReplicaSet> replicas;
    std::shared_ptr<scheduler::CachedService> cached;  // before them
    std::string their_id;                              // what the backends call it
    std::optional<std::string> identity;               // last told of; see IdentityOf
  };
  Status Take(const std::vector<service::ModelInfo>& remote);
  Tier MakeTier(const service::ModelInfo& info, const std::string& their_id) const;
  // What all that answer tell of the model; empty: not the same, or nothing. Nullopt: none answers.
  std::optional<std::string> IdentityOf(
      const Tier& tier, const std::vector<std::vector<service::ModelInfo>>& told) const;
  std::vector<gateway::Replica> ReplicasOf(const std::string& their_id) const;

  const GatewayModelsOptions options_;
  std::stop_source stop_;
  std::vector<api::TextFiles> files_;  // of each location
  std::unique_ptr<BackendDirectory> directory_;
  std::vector<Tier> tiers_;
  mutable std::mutex mutex_;  // guards the next
  std::vector<gateway::ServedModel> served_;
  std::atomic<bool> known_ = false;
};

// Asks again and again on a thread of its own until the models are known; from then on refreshes
// them again and again. Thread-safe.
class BackendWatch {
 public:
  // `changed` and `not_yet` are called on that thread: when the models are known and whenever what
  // is served changes, and before that each time with the reason. `models` must outlive it.
  BackendWatch(GatewayModels& models, std::chrono::milliseconds refresh,
               std::function<void()> changed, std::function<void(const Status&)> not_yet);
  // Stops the models' questions; ends without an answer if there is none yet.
  ~BackendWatch();

 private:
  void Run();
  bool Pause(std::chrono::milliseconds time);  // false: stopping

  GatewayModels& models_;
  const std::chrono::milliseconds refresh_;
  const std::function<void()> changed_;
  const std::function<void(const Status&)> not_yet_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pergola::cli
