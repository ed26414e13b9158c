#include "text/text_settings.h"

#include <utility>

namespace pergola::text {

Result<std::shared_ptr<const TextModel>> WithSettings(std::shared_ptr<const TextModel> text,
                                                      const TextSettings& settings) {
  if (settings.prompts.empty() && settings.default_prompt_name.empty() &&
      !settings.pair_instruction) {
    return text;
  }
  TextModelConfig config = text->config();
  for (const auto& [name, prompt] : settings.prompts) config.prompts.insert_or_assign(name, prompt);
  if (!settings.default_prompt_name.empty()) {
    if (!config.prompts.contains(settings.default_prompt_name)) {
      return InvalidArgumentError("the model has no prompt named '" + settings.default_prompt_name +
                                  "'");
    }
    config.default_prompt_name = settings.default_prompt_name;
  }
  if (settings.pair_instruction) {
    if (!config.pair_template) {
      return InvalidArgumentError("the model reads pairs without an instruction");
    }
    config.pair_template->instruction = *settings.pair_instruction;
  }
  return std::shared_ptr<const TextModel>(std::make_shared<TextModel>(std::move(config)));
}

}  // namespace pergola::text
