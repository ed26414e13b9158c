#include "api/resident_service.h"

#include <array>
#include <utility>

namespace pergola::api {
namespace {

// Outputs together with what they may lie in.
class OwningOutputs : public engine::Outputs {
 public:
  OwningOutputs(RunnerPtr runner, std::unique_ptr<engine::Outputs> outputs)
      : runner_(std::move(runner)), outputs_(std::move(outputs)) {}
  Result<ConstF32Matrix> Rows(int64_t index, OutputKind kind) override {
    return outputs_->Rows(index, kind);
  }

 private:
  RunnerPtr runner_;
  std::unique_ptr<engine::Outputs> outputs_;  // last: goes first
};

class ResidentRunner : public engine::Runner {
 public:
  ResidentRunner(std::shared_ptr<ResidentModel> model, const engine::Runner& first)
      : model_(std::move(model)), step_tokens_(first.step_tokens()) {
    for (const OutputKind kind : kOutputKinds) {
      widths_[static_cast<size_t>(kind)] = first.width(kind);
    }
  }
  int64_t step_tokens() const override { return step_tokens_; }
  int64_t width(OutputKind kind) const override { return widths_[static_cast<size_t>(kind)]; }
  Result<Readied> MakeReady(const Need& need) override {
    PERGOLA_ASSIGN_OR_RETURN(ResidentModel::Acquired acquired, model_->Acquire(need));
    return Readied{acquired.load_time, std::move(acquired.missing)};
  }
  void Wake() override { model_->Wake(); }
  Result<std::unique_ptr<engine::Outputs>> Run(
      std::span<const engine::SequenceInput> batch) override {
    PERGOLA_ASSIGN_OR_RETURN(ResidentModel::Acquired acquired, model_->Acquire());
    PERGOLA_RETURN_IF_ERROR(acquired.missing);
    PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<engine::Outputs> outputs, acquired.runner->Run(batch));
    return std::unique_ptr<engine::Outputs>(
        std::make_unique<OwningOutputs>(std::move(acquired.runner), std::move(outputs)));
  }

 private:
  const std::shared_ptr<ResidentModel> model_;
  const int64_t step_tokens_;
  std::array<int64_t, kNumOutputKinds> widths_ = {};
};

class ResidentService : public service::InferenceService {
 public:
  ResidentService(std::shared_ptr<service::InferenceService> scheduler,
                  std::shared_ptr<ResidentModel> model)
      : scheduler_(std::move(scheduler)), model_(std::move(model)) {}

  void Submit(service::InferenceRequest request, service::InferenceCallback done) override {
    const ResidentModel::Use use{request.keep_alive, request.probe};
    model_->Begin();
    scheduler_->Submit(std::move(request), [model = model_, use, done = std::move(done)](
                                               Result<service::InferenceOutput> output) {
      model->End(use);  // first: who has the answer may ask when the weights go
      done(std::move(output));
    });
  }
  std::vector<service::ModelInfo> Models() const override { return scheduler_->Models(); }
  service::Residence residence() const override { return model_->residence(); }
  void NoteUse(std::optional<std::chrono::milliseconds> keep_alive) override {
    model_->Touch({.keep_alive = keep_alive});
  }

 private:
  const std::shared_ptr<service::InferenceService> scheduler_;
  const std::shared_ptr<ResidentModel> model_;
};

}  // namespace

std::unique_ptr<engine::Runner> MakeResidentRunner(std::shared_ptr<ResidentModel> model,
                                                   const engine::Runner& first) {
  return std::make_unique<ResidentRunner>(std::move(model), first);
}

std::shared_ptr<service::InferenceService> MakeResidentService(
    std::shared_ptr<service::InferenceService> scheduler, std::shared_ptr<ResidentModel> model) {
  return std::make_shared<ResidentService>(std::move(scheduler), std::move(model));
}

}  // namespace pergola::api
