// What a checkpoint's files say without its weights being read: configuration, pipeline, tokenizer,
// and the table of its tensors.
//
//   PERGOLA_ASSIGN_OR_RETURN(engine::ModelFiles files, engine::OpenModelFiles(path));
//
// Enough to turn texts into ids; engine::Model makes the rest of it. Weights are mapped, not
// touched.
#pragma once

#include <memory>
#include <string>

#include "formats/tensor_source.h"
#include "models/config.h"
#include "models/pipeline_config.h"
#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::engine {

struct ModelFiles {
  std::unique_ptr<formats::TensorSource> source;
  models::ModelConfig config;
  models::PipelineConfig pipeline;
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer;  // second owner: the text model above
  // The folder of a LoRA adapter that is to be merged into `source` (lora.h); empty: none.
  std::string adapter;
};

// `path`: a directory in Hugging Face or sentence-transformers layout, a LoRA adapter's folder, or
// a
// `.gguf` file.
// NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS or UNIMPLEMENTED naming file, tensor or key.
// `tokenizer`: of the same files, opened before; null: it is read.
Result<ModelFiles> OpenModelFiles(const std::string& path,
                                  std::shared_ptr<const tokenizers::Tokenizer> tokenizer = nullptr);

}  // namespace pergola::engine
