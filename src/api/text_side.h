// The text side of a model alone: tokenizer, prompts and limits, without its weights. For whoever
// computes elsewhere.
//
//   PERGOLA_ASSIGN_OR_RETURN(const auto files, api::TextFiles::Open(path));
//   ... the server tells what it serves ...
//   PERGOLA_ASSIGN_OR_RETURN(auto text, files.MakeText(remote_info));
#pragma once

#include <memory>
#include <string>

#include "models/pipeline_config.h"
#include "pergola/status.h"
#include "service/inference_service.h"
#include "text/text_model.h"

namespace pergola::api {

// From parts that are open. INVALID_ARGUMENT: the default prompt is none of the model's.
Result<std::shared_ptr<const text::TextModel>> MakeText(
    std::shared_ptr<const tokenizers::Tokenizer> tokenizer, const models::PipelineConfig& pipeline,
    const service::ModelInfo& info);

// What the files of a model say of its texts. Immutable.
class TextFiles {
 public:
  // Errors of engine::OpenModelFiles.
  static Result<TextFiles> Open(const std::string& path);

  // For a server that serves what `info` says. INVALID_ARGUMENT when limits or architecture say
  // that the files are another model's.
  Result<std::shared_ptr<const text::TextModel>> MakeText(const service::ModelInfo& info) const;
  // By the files alone, before any server has told its facts.
  Result<std::shared_ptr<const text::TextModel>> MakeOwnText() const;

 private:
  std::string path_;
  std::string architecture_;
  models::PipelineConfig pipeline_;
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer_;  // second owners: the texts made
};

}  // namespace pergola::api
