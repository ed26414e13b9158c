#include "api/text_side.h"

#include <utility>

#include "engine/model_files.h"

namespace pergola::api {

Result<std::shared_ptr<const text::TextModel>> MakeText(
    std::shared_ptr<const tokenizers::Tokenizer> tokenizer, const models::PipelineConfig& pipeline,
    const service::ModelInfo& info) {
  text::TextModelConfig text;
  text.tokenizer = std::move(tokenizer);
  text.max_tokens = info.max_tokens;
  text.vocab_size = info.vocab_size;
  text.prompts = pipeline.prompts;
  text.default_prompt_name = pipeline.default_prompt_name;
  if (const auto& pair = pipeline.classifier.pair_template) {
    text.pair_template =
        text::PairTemplate{pair->prefix, pair->body, pair->suffix, pair->default_instruction};
  }
  if (!text.default_prompt_name.empty() && !text.prompts.contains(text.default_prompt_name)) {
    return InvalidArgumentError("the model has no prompt named '" + text.default_prompt_name + "'");
  }
  return std::shared_ptr<const text::TextModel>(std::make_shared<text::TextModel>(std::move(text)));
}

Result<TextFiles> TextFiles::Open(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(engine::ModelFiles files, engine::OpenModelFiles(path));
  TextFiles text;
  text.path_ = path;
  text.architecture_ = std::move(files.config.architecture);
  text.pipeline_ = std::move(files.pipeline);
  text.tokenizer_ = std::move(files.tokenizer);
  return text;
}

Result<std::shared_ptr<const text::TextModel>> TextFiles::MakeText(
    const service::ModelInfo& info) const {
  if (architecture_ != info.architecture || pipeline_.max_tokens != info.max_tokens) {
    return InvalidArgumentError(path_ + " is a " + architecture_ + " model of up to " +
                                std::to_string(pipeline_.max_tokens) + " tokens, the server's '" +
                                info.id + "' is a " + info.architecture + " model of up to " +
                                std::to_string(info.max_tokens));
  }
  return api::MakeText(tokenizer_, pipeline_, info);
}

Result<std::shared_ptr<const text::TextModel>> TextFiles::MakeOwnText() const {
  service::ModelInfo info;
  info.max_tokens = pipeline_.max_tokens;
  info.vocab_size = static_cast<int64_t>(tokenizer_->vocab_size());
  return api::MakeText(tokenizer_, pipeline_, info);
}

}  // namespace pergola::api
