#include "api/served_model.h"

#include <utility>

#include "api/text_side.h"
#include "engine/local_runner.h"

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

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::Open(std::string id, const std::string& path,
                                                       const ServedModelOptions& options) {
  std::unique_ptr<ServedModel> served(new ServedModel);
  PERGOLA_ASSIGN_OR_RETURN(served->model_, engine::Model::Load(path, options.model));
  const engine::Model& model = *served->model_;
  served->info_ = MakeInfo(std::move(id), model);
  if (!model.pipeline().chunk_separator.empty() && served->info_.chunk_separator < 0) {
    return InvalidArgumentError(path + ": the vocabulary lacks the separator of chunks, '" +
                                model.pipeline().chunk_separator + "'");
  }

  PERGOLA_ASSIGN_OR_RETURN(served->text_,
                           MakeText(model.tokenizer(), model.pipeline(), served->info_));
  served->scheduler_ = std::make_shared<scheduler::Scheduler>(
      served->info_, std::make_unique<engine::LocalRunner>(model), options.scheduler);
  return served;
}

}  // namespace pergola::api
