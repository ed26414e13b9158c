#include "engine/local_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pergola::engine {
namespace {

using models::Workspace;

// Rows copied out of the workspace: a CPU has computed them by the time Run returns.
class HostOutputs : public Outputs {
 public:
  HostOutputs(std::vector<float> values, std::vector<ConstF32Matrix> rows)
      : values_(std::move(values)), rows_(std::move(rows)) {}
  Result<ConstF32Matrix> Rows(int64_t index) override { return rows_[static_cast<size_t>(index)]; }

 private:
  std::vector<float> values_;
  std::vector<ConstF32Matrix> rows_;  // into values_
};

}  // namespace

LocalRunner::LocalRunner(const Model& model) : model_(model) {}

// Enough rows for the matrix kernels to reach their rate on every core; measured by
// bench/step_tokens.py and kept in docs/perf_log.md.
int64_t LocalRunner::step_tokens() const { return 512; }

Status LocalRunner::Flatten(std::span<const SequenceInput> batch) {
  ids_.clear();
  positions_.clear();
  cu_seqlens_.assign(1, 0);
  const int64_t max_tokens = model_.encoder().max_positions();
  const int64_t vocab_size = model_.encoder().vocab_size();
  for (size_t index = 0; index < batch.size(); ++index) {
    const auto ids = batch[index].ids;
    const std::string place = "sequence " + std::to_string(index);
    if (ids.empty()) return InvalidArgumentError(place + " is empty");
    if (static_cast<int64_t>(ids.size()) > max_tokens) {
      return InvalidArgumentError(place + " has " + std::to_string(ids.size()) +
                                  " tokens, the limit is " + std::to_string(max_tokens));
    }
    for (size_t position = 0; position < ids.size(); ++position) {
      if (ids[position] < 0 || ids[position] >= vocab_size) {
        return InvalidArgumentError(place + ": token id " + std::to_string(ids[position]) +
                                    " at position " + std::to_string(position) +
                                    " is outside the vocabulary of " + std::to_string(vocab_size));
      }
      ids_.push_back(ids[position]);
      positions_.push_back(static_cast<int32_t>(position));
    }
    cu_seqlens_.push_back(static_cast<int32_t>(ids_.size()));
  }
  type_ids_.assign(ids_.size(), 0);
  return OkStatus();
}

ConstF32Matrix LocalRunner::PoolAndProject(ConstF32Matrix hidden,
                                           const kernels::RaggedView& ragged) {
  kernels::Ops& ops = model_.ops();
  F32Matrix rows = workspace_.Get(Workspace::kPooled, ragged.num_sequences(), hidden.cols);
  ops.Pool(hidden, ragged, model_.pipeline().pooling, rows);
  Workspace::Slot slot = Workspace::kDenseA;
  for (const DenseLayer& layer : model_.dense()) {
    const F32Matrix next = workspace_.Get(slot, rows.rows, layer.linear.weight->outputs());
    ops.Linear(rows, *layer.linear.weight, layer.linear.bias_data(), layer.activation, next);
    rows = next;
    slot = slot == Workspace::kDenseA ? Workspace::kDenseB : Workspace::kDenseA;
  }
  return rows;
}

Result<std::unique_ptr<Outputs>> LocalRunner::Run(std::span<const SequenceInput> batch) {
  if (batch.empty()) return InvalidArgumentError("the batch is empty");
  PERGOLA_RETURN_IF_ERROR(Flatten(batch));
  const ThreadPool::Pass pass(model_.ops().threads());
  const models::Batch input{ids_, positions_, type_ids_, cu_seqlens_};
  const F32Matrix hidden =
      workspace_.Get(Workspace::kHidden, input.num_tokens(), model_.hidden_width());
  PERGOLA_RETURN_IF_ERROR(model_.encoder().Forward(input, workspace_, hidden, observer_));
  const ConstF32Matrix pooled = PoolAndProject(hidden, input.ragged());

  size_t total = 0;
  for (const SequenceInput& sequence : batch) {
    total += static_cast<size_t>(sequence.token_vectors
                                     ? static_cast<int64_t>(sequence.ids.size()) * hidden.cols
                                     : pooled.cols);
  }
  std::vector<float> values(total);
  std::vector<ConstF32Matrix> rows;
  float* next = values.data();
  for (size_t index = 0; index < batch.size(); ++index) {
    const bool whole = batch[index].token_vectors;
    const ConstF32Matrix source =
        whole ? ConstF32Matrix(hidden).slice(cu_seqlens_[index],
                                             cu_seqlens_[index + 1] - cu_seqlens_[index])
              : pooled.slice(static_cast<int64_t>(index), 1);
    const int64_t count = source.rows * source.cols;
    std::copy_n(source.data, count, next);  // both contiguous
    rows.emplace_back(next, source.rows, source.cols);
    next += count;
  }
  return std::unique_ptr<Outputs>(new HostOutputs(std::move(values), std::move(rows)));
}

}  // namespace pergola::engine
