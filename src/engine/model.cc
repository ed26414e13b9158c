#include "engine/model.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <utility>

#include "models/registry.h"
#include "tokenizers/gguf_vocabulary.h"

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

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, const ModelOptions& options) {
  std::unique_ptr<Model> model(new Model);
  PERGOLA_ASSIGN_OR_RETURN(model->ops_, kernels::MakeOps(options.ops));
  std::error_code error;
  const bool is_directory = fs::is_directory(path, error);
  if (!is_directory && !fs::exists(path, error)) {
    return NotFoundError("model '" + path + "' does not exist");
  }
  PERGOLA_RETURN_IF_ERROR(is_directory ? model->ReadDirectory(path) : model->ReadGguf(path));
  const kernels::LinearOptions linear{.activations = options.activations};
  const ThreadPool::Pass pass(model->ops_->threads());  // weights are repacked in parallel
  PERGOLA_ASSIGN_OR_RETURN(
      model->encoder_, models::LoadEncoder(model->config_, *model->source_, *model->ops_, linear));
  PERGOLA_RETURN_IF_ERROR(model->ReadDense(linear));
  if (static_cast<int64_t>(model->tokenizer_->num_added_tokens(false)) >=
      model->pipeline_.max_tokens) {
    return InvalidArgumentError(path + ": a limit of " +
                                std::to_string(model->pipeline_.max_tokens) +
                                " tokens leaves no room for text");
  }
  model->CollectFacts(options.activations);
  return model;
}

Status Model::ReadDirectory(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(config_, models::ReadHfConfig(path + "/config.json"));
  PERGOLA_ASSIGN_OR_RETURN(pipeline_, models::ReadSentencePipeline(path, config_));
  PERGOLA_ASSIGN_OR_RETURN(source_, formats::OpenTensorSource(path));
  PERGOLA_ASSIGN_OR_RETURN(tokenizer_, tokenizers::LoadTokenizerJson(path + "/tokenizer.json"));
  return OkStatus();
}

Status Model::ReadGguf(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(source_, formats::OpenTensorSource(path));
  if (source_->format() != "gguf") {
    return InvalidArgumentError(path + ": a single " + std::string(source_->format()) +
                                " file is no model; give the directory it lies in");
  }
  PERGOLA_ASSIGN_OR_RETURN(config_, models::ReadGgufConfig(*source_));
  PERGOLA_ASSIGN_OR_RETURN(pipeline_, models::ReadGgufPipeline(*source_, config_));
  PERGOLA_ASSIGN_OR_RETURN(tokenizer_, tokenizers::LoadTokenizerGguf(*source_));
  return OkStatus();
}

Status Model::ReadDense(kernels::LinearOptions options) {
  int64_t width = encoder_->hidden_width();
  for (const models::DenseConfig& config : pipeline_.dense) {
    const std::string name = config.tensor.empty() ? config.directory : config.tensor;
    if (config.in_features != width) {
      return InvalidArgumentError("dense layer '" + name + "' takes " +
                                  std::to_string(config.in_features) + " values, it gets " +
                                  std::to_string(width));
    }
    const formats::TensorSource* source = source_.get();
    std::string prefix = "linear";
    if (config.tensor.empty()) {
      PERGOLA_ASSIGN_OR_RETURN(auto opened, formats::OpenTensorSource(config.directory));
      dense_sources_.push_back(std::move(opened));
      source = dense_sources_.back().get();
    } else {
      prefix = config.tensor.substr(0, config.tensor.rfind(".weight"));
    }
    models::WeightReader reader(*source, *ops_, options);
    DenseLayer layer;
    layer.activation = config.activation;
    PERGOLA_ASSIGN_OR_RETURN(
        layer.linear, reader.Linear(prefix, config.out_features, config.in_features, config.bias));
    facts_.owned_bytes += static_cast<int64_t>(reader.owned_bytes());
    dense_.push_back(std::move(layer));
    width = config.out_features;
  }
  return OkStatus();
}

int64_t Model::width(OutputKind kind) const {
  switch (kind) {
    case OutputKind::kEmbedding:
      return dense_.empty() ? encoder_->hidden_width() : dense_.back().linear.weight->outputs();
    case OutputKind::kTokenVectors:
      return encoder_->hidden_width();
    default:
      return 0;
  }
}

void Model::CollectFacts(kernels::ActivationPrecision activations) {
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
  for (const auto& source : dense_sources_) count(*source);
  const auto most = std::max_element(matrices.begin(), matrices.end());
  const auto dtype = static_cast<DType>(most - matrices.begin());
  facts_.quantisation = std::string(DTypeName(dtype));
  facts_.numeric_class = ops_->numeric_class(dtype, activations);
}

}  // namespace pergola::engine
