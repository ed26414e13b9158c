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
  int64_t width(OutputKind kind) const override { return model_.width(kind); }
  // INVALID_ARGUMENT when a sequence is empty, longer than the model takes, or holds an id outside
  // its vocabulary; or an output is asked for that the model does not have. The batch is then not
  // run.
  Result<std::unique_ptr<Outputs>> Run(std::span<const SequenceInput> batch) override;

  // Scratch memory held, in bytes.
  size_t workspace_bytes() const { return workspace_.bytes(); }

  // Sees every stage of the forward passes from now on; null = none. For tests and diagnosis.
  void set_observer(const models::StageObserver* observer) { observer_ = observer; }

 private:
  Status Check(const SequenceInput& input, size_t index) const;
  Status Flatten(std::span<const SequenceInput> batch);
  // The encoder's rows of the flattened batch, a few whole sequences at a time.
  Status Encode(F32Matrix hidden);
  // What a head of `kind` takes: rows of tokens, a row per entry of pooled_rows_ (embeddings), or a
  // row per sequence.
  ConstF32Matrix HeadInput(const Head& head, ConstF32Matrix hidden);
  ConstF32Matrix PoolSpans(kernels::PoolingKind pooling, ConstF32Matrix hidden);
  // Which rows of HeadInput belong to sequence `index`.
  ConstF32Matrix RowsOf(size_t index, OutputKind kind, ConstF32Matrix rows) const;

  const Model& model_;
  models::Workspace workspace_;
  const models::StageObserver* observer_ = nullptr;
  // The ragged batch; kept to reuse memory.
  std::vector<int32_t> ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> type_ids_;
  std::vector<int32_t> cu_seqlens_;
  std::vector<int32_t> cu_pass_;  // of the sequences that pass through the layers together
  // Where pooling begins and ends: sequences, or their spans and the gaps between them.
  std::vector<int32_t> cu_pooled_;
  // [S + 1]: the pooled rows of sequence s are pooled_rows_[first_pooled_[s]] and on.
  std::vector<int64_t> first_pooled_;
  std::vector<int64_t> pooled_rows_;  // as numbered by cu_pooled_
};

}  // namespace pergola::engine
