#include "api/served_model.h"

#include <utility>

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

  text::TextModelConfig text;
  text.tokenizer = model.tokenizer();
  text.max_tokens = served->info_.max_tokens;
  text.vocab_size = served->info_.vocab_size;
  text.prompts = model.pipeline().prompts;
  text.default_prompt_name = options.default_prompt_name.empty()
                                 ? model.pipeline().default_prompt_name
                                 : options.default_prompt_name;
  if (const auto& pair = model.pipeline().classifier.pair_template) {
    text.pair_template =
        text::PairTemplate{pair->prefix, pair->body, pair->suffix, pair->default_instruction};
  }
  if (!text.default_prompt_name.empty() && !text.prompts.contains(text.default_prompt_name)) {
    return InvalidArgumentError("the model has no prompt named '" + text.default_prompt_name + "'");
  }
  served->text_ = std::make_shared<text::TextModel>(std::move(text));
  served->scheduler_ = std::make_shared<scheduler::Scheduler>(
      served->info_, std::make_unique<engine::LocalRunner>(model), options.scheduler);
  return served;
}

}  // namespace pergola::api
