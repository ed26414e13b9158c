#include "api/served_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "api/resident_service.h"
#include "api/text_side.h"
#include "engine/local_runner.h"
#include "formats/sha256.h"

namespace pergola::api {
namespace {

std::string_view PoolingName(kernels::PoolingKind pooling) {
  switch (pooling) {
    case kernels::PoolingKind::kMean:
      return "mean";
    case kernels::PoolingKind::kCls:
      return "cls";
    case kernels::PoolingKind::kLastToken:
      return "last";
  }
  return "";
}

service::ModelInfo MakeInfo(std::string id, const engine::Model& model) {
  const engine::ModelFacts& facts = model.facts();
  service::ModelInfo info;
  info.id = std::move(id);
  info.architecture = facts.architecture;
  info.numeric_class = facts.numeric_class;
  for (const OutputKind kind : kOutputKinds) {
    info.widths[static_cast<size_t>(kind)] = model.width(kind);
  }
  info.max_tokens = model.pipeline().max_tokens;
  info.vocab_size = model.encoder().vocab_size();
  info.normalises = model.pipeline().normalise;
  info.matryoshka_widths = model.pipeline().matryoshka_widths;
  if (const models::HeadConfig* head = model.pipeline().FindHead(OutputKind::kEmbedding)) {
    info.pooling = PoolingName(head->pooling);
  }
  if (const models::HeadConfig* head = model.pipeline().FindHead(OutputKind::kMultiVector)) {
    info.multi_vector_begin = head->skipped_rows;
  }
  if (model.pipeline().output == models::OutputConvention::kTanhInt8) {
    info.int8_rule = service::Int8Rule::kTanh;
  }
  if (const std::string& separator = model.pipeline().chunk_separator; !separator.empty()) {
    info.chunk_separator = model.tokenizer()->TokenToId(separator);
  }
  const models::ClassifierConfig& classifier = model.pipeline().classifier;
  info.labels = classifier.labels;
  info.multi_label = classifier.function == models::ScoreFunction::kSigmoid;
  info.parameters = facts.parameters;
  info.weight_bytes = facts.weight_bytes;
  info.quantisation = facts.quantisation;
  info.modified_unix_seconds = facts.modified_unix_seconds;
  return info;
}

// Everything that decides the bits of a row beside its key: weights and configuration, and a
// forward pass for what is done with them. Empty where that gives values that are not finite: of
// such weights nothing is kept.
Result<std::string> IdentityOf(const service::ModelInfo& info, const engine::Model& model,
                               const std::function<bool()>& cancelled = nullptr) {
  constexpr int64_t kProbeTokens = 8;
  OutputSet outputs;
  for (const OutputKind kind : kOutputKinds) {
    if (info.has(kind)) outputs.Add(kind);
  }
  Sequence sequence;
  for (int64_t index = 0; index < std::min(kProbeTokens, info.max_tokens); ++index) {
    sequence.ids.push_back(
        static_cast<int32_t>(info.vocab_size * (2 * index + 1) / (2 * kProbeTokens)));
  }
  const std::array<engine::SequenceInput, 1> probe = {{{&sequence, outputs}}};
  engine::LocalRunner runner(model);
  PERGOLA_ASSIGN_OR_RETURN(const auto answer, runner.Run(probe));
  PERGOLA_ASSIGN_OR_RETURN(const uint32_t checksum, model.ContentChecksum(cancelled));
  std::string identity = info.architecture + "\n" + info.numeric_class + "\n" + info.quantisation +
                         "\n" + info.pooling + "\n" + std::to_string(info.parameters) +
                         " parameters, " + std::to_string(info.weight_bytes) + " bytes, checksum " +
                         std::to_string(checksum) + "\n";
  for (const OutputKind kind : kOutputKinds) {
    if (!outputs.Has(kind)) continue;
    PERGOLA_ASSIGN_OR_RETURN(const ConstF32Matrix rows, answer->Rows(0, kind));
    const auto finite = [](float value) { return std::isfinite(value); };
    if (!std::all_of(rows.data, rows.data + rows.rows * rows.cols, finite)) {
      return std::string();
    }
    identity.append(reinterpret_cast<const char*>(rows.data),
                    static_cast<size_t>(rows.rows * rows.cols) * sizeof(float));
  }
  return formats::Sha256Hex(identity);
}

// A model that its runner owns.
class OwningRunner : public engine::Runner {
 public:
  explicit OwningRunner(std::unique_ptr<engine::Model> model)
      : model_(std::move(model)), runner_(*model_) {}
  int64_t step_tokens() const override { return runner_.step_tokens(); }
  int64_t width(OutputKind kind) const override { return runner_.width(kind); }
  Result<std::unique_ptr<engine::Outputs>> Run(
      std::span<const engine::SequenceInput> batch) override {
    return runner_.Run(batch);
  }

 private:
  const std::unique_ptr<engine::Model> model_;
  engine::LocalRunner runner_;  // last: it reads the model
};

// Loads a model again that told `info` before. FAILED_PRECONDITION: it is another one now, whose
// rows must not mix with those that are cached. CANCELLED by `options.cancelled`.
Result<RunnerPtr> LoadAgain(const std::string& path, const engine::ModelOptions& options,
                            const service::ModelInfo& info) {
  PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<engine::Model> model,
                           engine::Model::Load(path, options));
  service::ModelInfo again = MakeInfo(info.id, *model);
  if (!info.rows_identity.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(again.rows_identity, IdentityOf(again, *model, options.cancelled));
    again.modified_unix_seconds = info.modified_unix_seconds;  // the same, written anew
  }
  if (again != info) {
    return FailedPreconditionError(path + " has changed since the server was started; restart it");
  }
  return RunnerPtr(std::make_shared<OwningRunner>(std::move(model)));
}

// Names, sizes and times of the files of `path` and `adapter`, in their folders as well (may be
// empty): what changes when somebody mends them.
std::string FilesStamp(const std::string& path, const std::string& adapter) {
  namespace fs = std::filesystem;
  std::vector<std::string> lines;
  const auto add = [&lines](const fs::path& file) {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(file, error);
    const auto time = fs::last_write_time(file, error).time_since_epoch().count();
    lines.push_back(file.string() + " " + std::to_string(bytes) + " " + std::to_string(time));
  };
  std::error_code error;
  for (const std::string& each : {path, adapter}) {
    add(each);
    const auto links = fs::directory_options::follow_directory_symlink;
    for (fs::recursive_directory_iterator file(each, links, error), end; !error && file != end;
         file.increment(error)) {
      add(file->path());
    }
  }
  std::sort(lines.begin(), lines.end());
  std::string stamp;
  for (const std::string& line : lines) stamp += line + "\n";
  return stamp;
}

Status OpenCacheFile(const ServedModelOptions& options, const service::ModelInfo& info,
                     scheduler::Scheduler* scheduler) {
  scheduler::ResultFileOptions file;
  if (info.rows_identity.empty()) {
    return DataLossError("no cache file for '" + info.id +
                         "', whose weights give values that are not finite");
  }
  file.path = options.cache_file;
  file.identity = info.rows_identity;
  file.max_bytes = options.cache_file_bytes;
  file.tell = options.tell;
  const auto take = [scheduler](const scheduler::SequenceKey& key, scheduler::StoredOutput output) {
    scheduler->Remember(key, std::move(output));
  };
  PERGOLA_ASSIGN_OR_RETURN(auto opened, scheduler::ResultFile::Open(std::move(file), take));
  scheduler->KeepResultsIn(std::move(opened));
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::Open(std::string id, const std::string& path,
                                                       const ServedModelOptions& options) {
  std::unique_ptr<ServedModel> served(new ServedModel);
  PERGOLA_ASSIGN_OR_RETURN(served->model_, engine::Model::Load(path, options.model));
  const engine::Model& model = *served->model_;
  served->info_ = MakeInfo(std::move(id), model);
  if (options.identify || !options.cache_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(served->info_.rows_identity, IdentityOf(served->info_, model));
  }
  if (!model.pipeline().chunk_separator.empty() && served->info_.chunk_separator < 0) {
    return InvalidArgumentError(path + ": the vocabulary lacks the separator of chunks, '" +
                                model.pipeline().chunk_separator + "'");
  }

  PERGOLA_ASSIGN_OR_RETURN(served->text_,
                           MakeText(model.tokenizer(), model.pipeline(), served->info_));
  if (options.residents != nullptr) {
    PERGOLA_RETURN_IF_ERROR(served->StartResident(path, options));
    return served;
  }
  PERGOLA_RETURN_IF_ERROR(
      served->StartScheduler(std::make_unique<engine::LocalRunner>(model), options));
  served->service_ = served->scheduler_;
  return served;
}

Status ServedModel::StartScheduler(std::unique_ptr<engine::Runner> runner,
                                   const ServedModelOptions& options) {
  scheduler_ = std::make_shared<scheduler::Scheduler>(info_, std::move(runner), options.scheduler);
  if (options.cache_file.empty()) return OkStatus();
  return OpenCacheFile(options, info_, scheduler_.get());
}

Status ServedModel::StartResident(const std::string& path, const ServedModelOptions& options) {
  const engine::ModelFacts& facts = model_->facts();
  const int64_t bytes = facts.weight_bytes + facts.owned_bytes;
  engine::ModelOptions again = options.model;
  again.tokenizer = model_->tokenizer();
  ResidentModel::Source source;
  source.load = [path, again, info = info_](const std::function<bool()>& cancelled) mutable {
    again.cancelled = cancelled;
    return LoadAgain(path, again, info);
  };
  source.stamp = [path, adapter = again.adapter] { return FilesStamp(path, adapter); };
  source.check = [path, again] { return engine::Model::CheckFiles(path, again); };
  auto first = std::make_shared<OwningRunner>(std::move(model_));
  PERGOLA_ASSIGN_OR_RETURN(const auto resident,
                           options.residents->Add(info_.id, bytes, first, std::move(source)));
  PERGOLA_RETURN_IF_ERROR(StartScheduler(MakeResidentRunner(resident, *first), options));
  service_ = MakeResidentService(scheduler_, resident);
  return OkStatus();
}

}  // namespace pergola::api
