// A model with everything around it that serving needs: weights, text side, scheduler.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto served, api::ServedModel::Open("all-MiniLM-L6-v2", path, {}));
//   served->service().Submit(...);
//
// The one place where these parts are put together: the library face, the command line and the
// server all start here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/resident_models.h"
#include "engine/model.h"
#include "pergola/status.h"
#include "scheduler/scheduler.h"
#include "service/inference_service.h"
#include "text/text_model.h"

namespace pergola::api {

struct ServedModelOptions {
  engine::ModelOptions model;
  scheduler::SchedulerOptions scheduler;
  // Keeps rows over restarts in this file (scheduler/result_file.h); empty: none.
  std::string cache_file;
  int64_t cache_file_bytes = int64_t{1} << 30;
  // Fills ModelInfo::rows_identity: reads all weights, and a small forward pass more.
  bool identify = false;
  // Which models are in memory; second owners: the models. Null: this one always is.
  std::shared_ptr<ResidentModels> residents = nullptr;
  // Told what a log should hold about the file, on any thread.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

// Thread-safe once open.
class ServedModel {
 public:
  // `id`: what users call it. Errors are those of engine::Model::Load, with a cache file of
  // scheduler::ResultFile::Open and with `residents` of ResidentModels::Add.
  static Result<std::unique_ptr<ServedModel>> Open(std::string id, const std::string& path,
                                                   const ServedModelOptions& options);

  const service::ModelInfo& info() const { return info_; }
  // Only of a model opened without `residents`.
  const engine::Model& model() const { return *model_; }
  const std::shared_ptr<const text::TextModel>& text() const { return text_; }
  scheduler::Scheduler& scheduler() const { return *scheduler_; }
  // What the gateway takes: the scheduler and, with `residents`, what lets them know of requests.
  const std::shared_ptr<service::InferenceService>& service() const { return service_; }

 private:
  ServedModel() = default;
  Status StartScheduler(std::unique_ptr<engine::Runner> runner, const ServedModelOptions& options);
  // Hands the model over to options.residents.
  Status StartResident(const std::string& path, const ServedModelOptions& options);

  std::unique_ptr<engine::Model> model_;  // null with `residents`
  service::ModelInfo info_;
  std::shared_ptr<const text::TextModel> text_;         // second owner: the gateway's routes
  std::shared_ptr<scheduler::Scheduler> scheduler_;     // second owner: the next
  std::shared_ptr<service::InferenceService> service_;  // second owner: the gateway's routes
};

}  // namespace pergola::api
