#include "api/served_model.h"

#include <utility>

#include "engine/local_runner.h"

namespace pergola::api {
namespace {

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

  text::TextModelConfig text;
  text.tokenizer = model.tokenizer();
  text.max_tokens = served->info_.max_tokens;
  text.vocab_size = served->info_.vocab_size;
  text.prompts = model.pipeline().prompts;
  text.default_prompt_name = options.default_prompt_name.empty()
                                 ? model.pipeline().default_prompt_name
                                 : options.default_prompt_name;
  if (!text.default_prompt_name.empty() && !text.prompts.contains(text.default_prompt_name)) {
    return InvalidArgumentError("the model has no prompt named '" + text.default_prompt_name + "'");
  }
  served->text_ = std::make_shared<text::TextModel>(std::move(text));
  served->scheduler_ = std::make_shared<scheduler::Scheduler>(
      served->info_, std::make_unique<engine::LocalRunner>(model), options.scheduler);
  return served;
}

}  // namespace pergola::api
