// The text side of a model alone: tokenizer, prompts and limits, without its weights. For whoever
// computes elsewhere.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto text, api::OpenText(path, remote_info, ""));
#pragma once

#include <memory>
#include <string>

#include "models/pipeline_config.h"
#include "pergola/status.h"
#include "service/inference_service.h"
#include "text/text_model.h"

namespace pergola::api {

// From parts that are open. `default_prompt_name`: empty = the model's own; INVALID_ARGUMENT for
// one that it does not have.
Result<std::shared_ptr<const text::TextModel>> MakeText(
    std::shared_ptr<const tokenizers::Tokenizer> tokenizer, const models::PipelineConfig& pipeline,
    const service::ModelInfo& info, const std::string& default_prompt_name);

// From the files at `path`, which must be those that `info` is of. Errors of
// engine::OpenModelFiles; INVALID_ARGUMENT when limits or vocabulary say that they are another
// model's.
Result<std::shared_ptr<const text::TextModel>> OpenText(const std::string& path,
                                                        const service::ModelInfo& info,
                                                        const std::string& default_prompt_name);

}  // namespace pergola::api
