// What whoever runs a model may say about its texts in place of its files: prompts, the one used by
// default, and what a language model that judges pairs is told.
//
//   PERGOLA_ASSIGN_OR_RETURN(text, text::WithSettings(text, {.prompts = {{"query", "q: "}}}));
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "pergola/status.h"
#include "text/text_model.h"

namespace pergola::text {

struct TextSettings {
  // Added to the model's own, in place of one of the same name.
  std::map<std::string, std::string, std::less<>> prompts = {};
  std::string default_prompt_name = {};              // empty: the model's own
  std::optional<std::string> pair_instruction = {};  // nullopt: the model's own
};

// `text` itself when the settings change nothing. INVALID_ARGUMENT: a default prompt that there is
// not, an instruction for a model without a template.
Result<std::shared_ptr<const TextModel>> WithSettings(std::shared_ptr<const TextModel> text,
                                                      const TextSettings& settings);

}  // namespace pergola::text
