// The Runner of one model on this machine.
//
//   engine::LocalRunner runner(model);
//   PERGOLA_ASSIGN_OR_RETURN(auto outputs, runner.Run(batch));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model.h"
#include "engine/runner.h"
#include "models/workspace.h"

namespace pergola::engine {

// Thread-confined. `model` must outlive it.
class LocalRunner : public Runner {
 public:
  explicit LocalRunner(const Model& model);

  int64_t step_tokens() const override;
  int64_t embedding_width() const override { return model_.embedding_width(); }
  int64_t hidden_width() const override { return model_.hidden_width(); }
  // INVALID_ARGUMENT when a sequence is empty, longer than the model takes, or holds an id outside
  // its vocabulary; the batch is then not run.
  Result<std::unique_ptr<Outputs>> Run(std::span<const SequenceInput> batch) override;

  // Scratch memory held, in bytes.
  size_t workspace_bytes() const { return workspace_.bytes(); }

  // Sees every stage of the forward passes from now on; null = none. For tests and diagnosis.
  void set_observer(const models::StageObserver* observer) { observer_ = observer; }

 private:
  Status Flatten(std::span<const SequenceInput> batch);
  ConstF32Matrix PoolAndProject(ConstF32Matrix hidden, const kernels::RaggedView& ragged);

  const Model& model_;
  models::Workspace workspace_;
  const models::StageObserver* observer_ = nullptr;
  // The ragged batch; kept to reuse memory.
  std::vector<int32_t> ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> type_ids_;
  std::vector<int32_t> cu_seqlens_;
};

}  // namespace pergola::engine
