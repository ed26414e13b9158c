#include "cli/embed_run.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <optional>

#include "cli/embed_checkpoint.h"
#include "cli/progress_bar.h"
#include "cli/status_exit.h"

namespace pergola::cli {
namespace {

constexpr std::chrono::seconds kCommitInterval{1};
constexpr int64_t kMaxBadShown = 100;

class EmbedRunner {
 public:
  EmbedRunner(EmbedInput& input, const TextEmbedder& embedder, const EmbedRunOptions& options)
      : input_(input),
        embedder_(embedder),
        options_(options),
        bar_(stderr, "embed", ProgressUnit::kTexts) {}

  int Run();

 private:
  Status Prepare();
  Status Work();
  Status OnChunk(const EmbedTotals& totals);
  void OnBad(const InputRecord& record);
  Status Commit(const EmbedTotals& totals);
  bool to_file() const { return options_.output != "-"; }
  void Report(const EmbedTotals& totals) const;

  EmbedInput& input_;
  const TextEmbedder& embedder_;
  const EmbedRunOptions& options_;
  ProgressBar bar_;
  std::optional<RowWriter> writer_;
  EmbedCheckpoint start_;  // of an earlier run; zeros for a fresh one
  EmbedTotals totals_;
  std::chrono::steady_clock::time_point last_commit_ = std::chrono::steady_clock::now();
};

// Opens the output. The checkpoint is there before the first row, so that a run killed at any
// moment is known for what it is.
Status EmbedRunner::Prepare() {
  std::optional<EmbedCheckpoint> found;
  if (options_.resume) {
    PERGOLA_ASSIGN_OR_RETURN(found, FindResumePoint(options_.output, options_.format,
                                                    embedder_.width(), options_.settings));
  }
  std::optional<RowFileState> keep;
  if (found) {
    start_ = *found;
    keep = found->state;
  }
  start_.settings = options_.settings;
  if (to_file()) {
    if (!found) RemoveCheckpoint(options_.output);
    PERGOLA_RETURN_IF_ERROR(WriteCheckpoint(options_.output, start_));
  }
  PERGOLA_ASSIGN_OR_RETURN(
      RowWriter writer, RowWriter::Open(options_.output, options_.format, embedder_.width(), keep));
  writer_.emplace(std::move(writer));
  return OkStatus();
}

Status EmbedRunner::Work() {
  EmbedPipelineOptions pipeline = options_.pipeline;
  pipeline.first_record = start_.state.records;
  EmbedHooks hooks;
  hooks.on_bad = [this](const InputRecord& record) { OnBad(record); };
  hooks.on_chunk = [this](const EmbedTotals& totals) { return OnChunk(totals); };
  return RunEmbedPipeline(input_, embedder_, *writer_, pipeline, hooks, &totals_);
}

void EmbedRunner::OnBad(const InputRecord& record) {
  if (totals_.skipped > kMaxBadShown) return;
  bar_.Clear();
  if (totals_.skipped == kMaxBadShown) {
    std::fputs("more bad lines follow and are not shown\n", stderr);
    return;
  }
  std::fprintf(stderr, "%s: %s; skipped\n", record.where.c_str(), record.status.message().c_str());
}

Status EmbedRunner::OnChunk(const EmbedTotals& totals) {
  const int64_t total_bytes = input_.total_bytes();
  const double fraction =
      total_bytes > 0 ? static_cast<double>(totals.input_bytes) / static_cast<double>(total_bytes)
                      : -1;
  bar_.Update(start_.state.rows + totals.rows, 0, fraction);
  const auto now = std::chrono::steady_clock::now();
  if (!to_file() || now - last_commit_ < kCommitInterval) return OkStatus();
  last_commit_ = now;
  return Commit(totals);
}

Status EmbedRunner::Commit(const EmbedTotals& totals) {
  PERGOLA_RETURN_IF_ERROR(writer_->Commit());
  if (!to_file()) return OkStatus();
  EmbedCheckpoint checkpoint = start_;
  checkpoint.state = {writer_->rows(), writer_->bytes(), totals.records};
  checkpoint.skipped += totals.skipped;
  return WriteCheckpoint(options_.output, checkpoint);
}

void EmbedRunner::Report(const EmbedTotals& totals) const {
  if (totals.truncated > 0) {
    std::fprintf(stderr, "%" PRId64 " texts were longer than the model takes and were cut\n",
                 totals.truncated);
  }
  if (totals.skipped > 0) {
    std::fprintf(stderr, "%" PRId64 " bad lines were skipped\n", totals.skipped);
  }
}

int EmbedRunner::Run() {
  if (const Status status = Prepare(); !status.ok()) return Fail(status);
  Status status = Work();
  bar_.Finish();
  const Status committed = Commit(totals_);
  if (status.ok()) status = committed;
  Report(totals_);
  if (!status.ok()) {
    const int code = Fail(status);
    if (to_file() && committed.ok()) {
      std::fprintf(stderr, "%" PRId64 " rows are in '%s': --resume continues\n", writer_->rows(),
                   options_.output.c_str());
    }
    return code;
  }
  // With skipped lines the rows alone do not tell how many records they stand for: the checkpoint
  // stays.
  const bool any_skipped = start_.skipped + totals_.skipped > 0;
  if (to_file() && (!any_skipped || options_.format == RowFormat::kJsonl)) {
    RemoveCheckpoint(options_.output);
  }
  return totals_.skipped > 0 ? kExitBadInput : kExitOk;
}

}  // namespace

int RunEmbed(EmbedInput& input, const TextEmbedder& embedder, const EmbedRunOptions& options) {
  return EmbedRunner(input, embedder, options).Run();
}

}  // namespace pergola::cli
