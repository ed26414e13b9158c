#include "engine/local_runner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace pergola::engine {
namespace {

using models::Workspace;

// Tokens per thread that pass through the layers together: enough for the matrix kernels, few
// enough for what lies between two operations to stay in the thread's caches (docs/perf_log.md).
constexpr int64_t kPassTokensPerThread = 256;

// Rows copied out of the workspace: a CPU has computed them by the time Run returns.
class HostOutputs : public Outputs {
 public:
  using ByKind = std::array<ConstF32Matrix, kNumOutputKinds>;

  HostOutputs(std::vector<float> values, std::vector<ByKind> rows)
      : values_(std::move(values)), rows_(std::move(rows)) {}

  Result<ConstF32Matrix> Rows(int64_t index, OutputKind kind) override {
    const ConstF32Matrix& rows = rows_[static_cast<size_t>(index)][static_cast<size_t>(kind)];
    if (rows.data == nullptr) {
      return InternalError("no " + std::string(OutputKindName(kind)) + " was asked for");
    }
    return rows;
  }

 private:
  std::vector<float> values_;
  std::vector<ByKind> rows_;  // into values_
};

}  // namespace

LocalRunner::LocalRunner(const Model& model) : model_(model) {}

// Enough rows for the matrix kernels to reach their rate on every core, with some to spare for
// machines with more: `pergola doctor` measures how few would do (step_speed.h), docs/perf_log.md
// has what it found.
int64_t LocalRunner::step_tokens() const { return 512; }

Status LocalRunner::Check(const SequenceInput& input, size_t index) const {
  const Sequence& sequence = *input.sequence;
  const std::string place = "sequence " + std::to_string(index);
  const int64_t max_tokens = model_.encoder().max_positions();
  const int64_t vocab_size = model_.encoder().vocab_size();
  if (sequence.ids.empty()) return InvalidArgumentError(place + " is empty");
  if (sequence.tokens() > max_tokens) {
    return InvalidArgumentError(place + " has " + std::to_string(sequence.tokens()) +
                                " tokens, the limit is " + std::to_string(max_tokens));
  }
  for (size_t position = 0; position < sequence.ids.size(); ++position) {
    const int32_t id = sequence.ids[position];
    if (id < 0 || id >= vocab_size) {
      return InvalidArgumentError(place + ": token id " + std::to_string(id) + " at position " +
                                  std::to_string(position) + " is outside the vocabulary of " +
                                  std::to_string(vocab_size));
    }
  }
  for (const OutputKind kind : kOutputKinds) {
    if (input.outputs.Has(kind) && width(kind) == 0) {
      return InvalidArgumentError(place + ": the model gives no " +
                                  std::string(OutputKindName(kind)));
    }
  }
  return OkStatus();
}

Status LocalRunner::Flatten(std::span<const SequenceInput> batch) {
  ids_.clear();
  positions_.clear();
  type_ids_.clear();
  cu_seqlens_.assign(1, 0);
  cu_pooled_.assign(1, 0);
  first_pooled_.assign(1, 0);
  pooled_rows_.clear();
  // RoBERTa and its kin have one type, or none.
  const bool has_second_type = model_.config().num_token_types > 1;
  for (size_t index = 0; index < batch.size(); ++index) {
    PERGOLA_RETURN_IF_ERROR(Check(batch[index], index));
    const Sequence& sequence = *batch[index].sequence;
    const auto start = static_cast<int32_t>(ids_.size());
    const auto tokens = static_cast<int32_t>(sequence.tokens());
    ids_.insert(ids_.end(), sequence.ids.begin(), sequence.ids.end());
    for (int32_t position = 0; position < tokens; ++position) {
      positions_.push_back(position);
      const bool second = sequence.second_text > 0 && position >= sequence.second_text;
      type_ids_.push_back(second && has_second_type ? 1 : 0);
    }
    cu_seqlens_.push_back(start + tokens);
    const TokenSpan whole{0, tokens};
    const std::span<const TokenSpan> spans =
        sequence.spans.empty() ? std::span(&whole, 1) : std::span(sequence.spans);
    for (const TokenSpan& span : spans) {
      if (start + span.begin > cu_pooled_.back()) cu_pooled_.push_back(start + span.begin);
      pooled_rows_.push_back(static_cast<int64_t>(cu_pooled_.size()) - 1);
      cu_pooled_.push_back(start + span.end);
    }
    if (cu_pooled_.back() < start + tokens) cu_pooled_.push_back(start + tokens);
    first_pooled_.push_back(static_cast<int64_t>(pooled_rows_.size()));
  }
  return OkStatus();
}

Status LocalRunner::Encode(F32Matrix hidden) {
  // An observer sees the rows of the whole batch.
  const int64_t most = observer_ != nullptr
                           ? hidden.rows
                           : kPassTokensPerThread * model_.ops().threads().num_threads();
  const size_t sequences = cu_seqlens_.size() - 1;
  for (size_t first = 0, last = 0; first < sequences; first = last) {
    const int32_t begin = cu_seqlens_[first];
    cu_pass_.assign(1, 0);
    do {
      cu_pass_.push_back(cu_seqlens_[++last] - begin);
    } while (last < sequences && cu_seqlens_[last + 1] - begin <= most);
    const auto of_pass = [&](const std::vector<int32_t>& values) {
      return std::span(values).subspan(static_cast<size_t>(begin),
                                       static_cast<size_t>(cu_pass_.back()));
    };
    const models::Batch input{of_pass(ids_), of_pass(positions_), of_pass(type_ids_), cu_pass_};
    PERGOLA_RETURN_IF_ERROR(model_.encoder().Forward(
        input, workspace_, hidden.slice(begin, input.num_tokens()), observer_));
  }
  return OkStatus();
}

ConstF32Matrix LocalRunner::PoolSpans(kernels::PoolingKind pooling, ConstF32Matrix hidden) {
  const kernels::RaggedView ragged{cu_pooled_};
  const F32Matrix all = workspace_.Get(Workspace::kPooled, ragged.num_sequences(), hidden.cols);
  model_.ops().Pool(hidden, ragged, pooling, all);
  // Rows of gaps between spans are dropped; in place, as rows only move up.
  for (size_t row = 0; row < pooled_rows_.size(); ++row) {
    const auto to = static_cast<int64_t>(row);
    if (pooled_rows_[row] != to) std::copy_n(all.row(pooled_rows_[row]), all.cols, all.row(to));
  }
  return all.slice(0, static_cast<int64_t>(pooled_rows_.size()));
}

ConstF32Matrix LocalRunner::HeadInput(const Head& head, ConstF32Matrix hidden) {
  if (IsPerToken(head.kind())) return hidden;
  if (head.kind() == OutputKind::kEmbedding) return PoolSpans(head.pooling(), hidden);
  const kernels::RaggedView sequences{cu_seqlens_};
  const F32Matrix rows = workspace_.Get(Workspace::kPooled, sequences.num_sequences(), hidden.cols);
  model_.ops().Pool(hidden, sequences, head.pooling(), rows);
  return rows;
}

ConstF32Matrix LocalRunner::RowsOf(size_t index, OutputKind kind, ConstF32Matrix rows) const {
  if (IsPerToken(kind)) {
    return rows.slice(cu_seqlens_[index], cu_seqlens_[index + 1] - cu_seqlens_[index]);
  }
  if (kind == OutputKind::kEmbedding) {
    return rows.slice(first_pooled_[index], first_pooled_[index + 1] - first_pooled_[index]);
  }
  return rows.slice(static_cast<int64_t>(index), 1);
}

Result<std::unique_ptr<Outputs>> LocalRunner::Run(std::span<const SequenceInput> batch) {
  if (batch.empty()) return InvalidArgumentError("the batch is empty");
  PERGOLA_RETURN_IF_ERROR(Flatten(batch));
  const ThreadPool::Pass pass(model_.ops().threads());
  const F32Matrix hidden =
      workspace_.Get(Workspace::kHidden, static_cast<int64_t>(ids_.size()), model_.hidden_width());
  PERGOLA_RETURN_IF_ERROR(Encode(hidden));

  std::array<size_t, kNumOutputKinds> totals = {};
  for (const SequenceInput& sequence : batch) {
    for (const OutputKind kind : kOutputKinds) {
      if (!sequence.outputs.Has(kind)) continue;
      totals[static_cast<size_t>(kind)] +=
          static_cast<size_t>(sequence.sequence->rows(kind) * width(kind));
    }
  }
  std::vector<float> values(std::accumulate(totals.begin(), totals.end(), size_t{0}));
  std::vector<HostOutputs::ByKind> rows(batch.size());
  float* next = values.data();
  for (const OutputKind kind : kOutputKinds) {
    if (totals[static_cast<size_t>(kind)] == 0) continue;
    ConstF32Matrix output = hidden;
    if (const Head* head = model_.FindHead(kind); head != nullptr) {
      output = head->Apply(model_.ops(), workspace_, HeadInput(*head, hidden));
    }
    for (size_t index = 0; index < batch.size(); ++index) {
      if (!batch[index].outputs.Has(kind)) continue;
      const ConstF32Matrix source = RowsOf(index, kind, output);
      std::copy_n(source.data, source.rows * source.cols, next);  // both contiguous
      rows[index][static_cast<size_t>(kind)] = ConstF32Matrix(next, source.rows, source.cols);
      next += source.rows * source.cols;
    }
  }
  return std::unique_ptr<Outputs>(new HostOutputs(std::move(values), std::move(rows)));
}

}  // namespace pergola::engine
