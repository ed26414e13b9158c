#include "engine/model.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/mapped_file.h"
#include "engine/cancellable_source.h"
#include "engine/lora.h"
#include "engine/model_files.h"
#include "kernels/checksum.h"
#include "models/registry.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

int64_t ModifiedUnixSeconds(const std::string& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

// The folder of the adapter to merge; empty: none.
Result<std::string> ChooseAdapter(const std::string& path, const ModelFiles& files,
                                  const ModelOptions& options) {
  if (options.adapter.empty()) return files.adapter;
  if (!files.adapter.empty()) {
    return InvalidArgumentError("'" + path + "' is an adapter itself; '" + options.adapter +
                                "' needs a model");
  }
  if (!IsLoraAdapter(options.adapter)) {
    return NotFoundError("'" + options.adapter +
                         "' is no folder with adapter_config.json and adapter_model.safetensors");
  }
  return options.adapter;
}

std::unique_ptr<formats::TensorSource> Cancellable(std::unique_ptr<formats::TensorSource> source,
                                                   const ModelOptions& options) {
  if (!options.cancelled) return source;
  return std::make_unique<CancellableSource>(std::move(source), options.cancelled);
}

uint32_t ChecksumOf(const fs::path& file, uint64_t bytes = UINT64_MAX) {
  const auto mapped = MappedFile::Open(file.string());
  if (!mapped.ok()) return 0;  // empty
  return kernels::Crc32c(mapped->bytes().first(std::min<uint64_t>(bytes, mapped->bytes().size())));
}

// Of what `source`, opened from `path`, says beside its tensors.
std::string ConfigurationChecksums(const formats::TensorSource& source, const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    // A GGUF file: all that stands before its tensors.
    uint64_t begin = UINT64_MAX;
    for (const formats::TensorInfo& tensor : source.tensors()) {
      if (tensor.file_index == 0) begin = std::min(begin, tensor.file_offset);
    }
    return std::to_string(ChecksumOf(path, begin));
  }
  // Of the model, of its pipeline and of each of that's modules.
  std::vector<fs::path> files = {path / "config.json", path / "modules.json"};
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.is_directory(error)) files.push_back(entry.path() / "config.json");
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    if (!fs::exists(file, error)) continue;
    all += fs::relative(file, path, error).string() + " " + std::to_string(ChecksumOf(file)) + "\n";
  }
  return all;
}

// Which rows a model bears in 8 bits, by its least cosine over golden texts (docs/numerics.md): up
// projections' always, more where that has been measured: plain BERT (RoBERTa's kin has one token
// type, and in GGUF files its name) and EmbeddingGemma. Layers after pooling magnify what is
// rounded.
kernels::LinearRole NarrowTo(const models::ModelConfig& config,
                             const models::PipelineConfig& pipeline) {
  const bool bare = std::all_of(pipeline.heads.begin(), pipeline.heads.end(),
                                [](const auto& head) { return head.layers.empty(); });
  if (config.architecture == "gemma3_text") {
    return bare ? kernels::LinearRole::kGate : kernels::LinearRole::kQueryOrOutput;
  }
  const bool plain_bert =
      config.architecture == "bert" && config.num_token_types == 2 && !config.alibi;
  return plain_bert && bare ? kernels::LinearRole::kQueryOrOutput : kernels::LinearRole::kUp;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, const ModelOptions& options) {
  std::unique_ptr<Model> model(new Model);
  model->path_ = path;
  PERGOLA_ASSIGN_OR_RETURN(model->ops_, kernels::MakeOps(options.ops));
  PERGOLA_ASSIGN_OR_RETURN(ModelFiles files, OpenModelFiles(path, options.tokenizer));
  model->source_ = Cancellable(std::move(files.source), options);
  PERGOLA_ASSIGN_OR_RETURN(const std::string adapter, ChooseAdapter(path, files, options));
  if (!adapter.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(MergedModel merged,
                             MergeLora(std::move(model->source_), adapter, *model->ops_));
    model->source_ = Cancellable(std::move(merged.source), options);
    model->facts_.owned_bytes += merged.owned_bytes;
  }
  model->config_ = std::move(files.config);
  model->pipeline_ = std::move(files.pipeline);
  model->tokenizer_ = std::move(files.tokenizer);
  const kernels::LinearOptions linear{.activations = options.activations,
                                      .narrow_to = NarrowTo(model->config_, model->pipeline_),
                                      .weights = options.weights};
  const ThreadPool::Pass pass(model->ops_->threads());  // weights are repacked in parallel
  PERGOLA_ASSIGN_OR_RETURN(
      model->encoder_, models::LoadEncoder(model->config_, *model->source_, *model->ops_, linear));
  // Heads as they are: they cost little, being computed per sequence, and magnify what is rounded.
  PERGOLA_RETURN_IF_ERROR(model->LoadHeads({.activations = options.activations}));
  model->CollectFacts(linear);
  return model;
}

Status Model::CheckFiles(const std::string& path, const ModelOptions& options) {
  PERGOLA_ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(path, options.tokenizer));
  return ChooseAdapter(path, files, options).status();
}

Status Model::LoadHeads(kernels::LinearOptions options) {
  const HeadContext context{*source_, *tokenizer_, *ops_, options, hidden_width()};
  for (const models::HeadConfig& config : pipeline_.heads) {
    PERGOLA_ASSIGN_OR_RETURN(Head head, Head::Load(config, context));
    facts_.owned_bytes += static_cast<int64_t>(head.owned_bytes());
    heads_.push_back(std::move(head));
  }
  return NameLabels();
}

Status Model::NameLabels() {
  std::vector<std::string>& labels = pipeline_.classifier.labels;
  const int64_t outputs = width(OutputKind::kLogits);
  const auto named = static_cast<int64_t>(labels.size());
  if (named != 0 && named != outputs) {
    return InvalidArgumentError("the configuration names " + std::to_string(named) +
                                " labels, the classification head has " + std::to_string(outputs) +
                                " outputs");
  }
  for (int64_t label = named; label < outputs; ++label) {
    labels.push_back("LABEL_" + std::to_string(label));
  }
  if (outputs == 1) pipeline_.classifier.function = models::ScoreFunction::kSigmoid;
  return OkStatus();
}

const Head* Model::FindHead(OutputKind kind) const {
  const auto head = std::find_if(heads_.begin(), heads_.end(),
                                 [&](const Head& each) { return each.kind() == kind; });
  return head == heads_.end() ? nullptr : &*head;
}

int64_t Model::width(OutputKind kind) const {
  if (kind == OutputKind::kTokenVectors) return hidden_width();
  const Head* head = FindHead(kind);
  return head == nullptr ? 0 : head->width();
}

void Model::CollectFacts(const kernels::LinearOptions& options) {
  facts_.architecture = config_.architecture;
  facts_.format = std::string(source_->format());
  facts_.owned_bytes += static_cast<int64_t>(encoder_->owned_bytes());
  // By number: in 4-bit files the embedding table, finer than the rest, has half of all elements.
  std::array<int64_t, kNumDTypes> matrices = {};
  const auto count = [&](const formats::TensorSource& source) {
    for (const formats::TensorInfo& tensor : source.tensors()) {
      facts_.parameters += tensor.view.shape.elements();
      facts_.weight_bytes += tensor.view.bytes();
      if (tensor.view.shape.rank == 2) {
        ++matrices[static_cast<size_t>(tensor.view.dtype)];
      }
    }
    for (const std::string& file : source.files()) {
      facts_.modified_unix_seconds =
          std::max(facts_.modified_unix_seconds, ModifiedUnixSeconds(file));
    }
  };
  count(*source_);
  for (const Head& head : heads_) {
    for (const auto& source : head.sources()) count(*source);
  }
  const auto most = std::max_element(matrices.begin(), matrices.end());
  const auto dtype = static_cast<DType>(most - matrices.begin());
  facts_.quantisation = std::string(DTypeName(dtype));
  facts_.numeric_class = ops_->numeric_class(dtype, options);
}

Result<uint32_t> Model::ContentChecksum(const std::function<bool()>& cancelled) const {
  std::string all = ConfigurationChecksums(*source_, path_);
  for (const formats::TensorInfo& tensor : source_->tensors()) {
    if (cancelled && cancelled()) return CancelledError("loading was ended");
    const auto bytes = static_cast<size_t>(tensor.view.bytes());
    all += tensor.name + " " + std::string(DTypeName(tensor.view.dtype)) + " " +
           std::to_string(kernels::Crc32c({tensor.view.data, bytes})) + "\n";
  }
  return kernels::Crc32c(std::as_bytes(std::span(all)));
}

}  // namespace pergola::engine
