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
  // Told what a log should hold about the file, on any thread.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

// Thread-safe once open.
class ServedModel {
 public:
  // `id`: what users call it. Errors are those of engine::Model::Load
  // and, with a cache file, of scheduler::ResultFile::Open.
  static Result<std::unique_ptr<ServedModel>> Open(std::string id, const std::string& path,
                                                   const ServedModelOptions& options);

  const service::ModelInfo& info() const { return info_; }
  const engine::Model& model() const { return *model_; }
  const std::shared_ptr<const text::TextModel>& text() const { return text_; }
  scheduler::Scheduler& scheduler() const { return *scheduler_; }
  // The same scheduler as the interface that the gateway takes.
  std::shared_ptr<service::InferenceService> service() const { return scheduler_; }

 private:
  ServedModel() = default;

  std::unique_ptr<engine::Model> model_;
  service::ModelInfo info_;
  std::shared_ptr<const text::TextModel> text_;      // second owner: the gateway's routes
  std::shared_ptr<scheduler::Scheduler> scheduler_;  // second owner: the gateway's routes
};

}  // namespace pergola::api
