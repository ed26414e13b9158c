#include "engine/model_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/lora.h"
#include "tokenizers/gguf_vocabulary.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

Status ReadDirectory(const std::string& directory, ModelFiles* files) {
  std::string path = directory;
  if (IsLoraAdapter(directory)) {
    files->adapter = directory;
    PERGOLA_ASSIGN_OR_RETURN(path, LoraBase(directory));
  }
  PERGOLA_ASSIGN_OR_RETURN(files->config, models::ReadHfConfig(path + "/config.json"));
  PERGOLA_ASSIGN_OR_RETURN(files->source, formats::OpenTensorSource(path));
  PERGOLA_ASSIGN_OR_RETURN(files->pipeline,
                           models::ReadSentencePipeline(path, files->config, *files->source));
  if (files->tokenizer == nullptr) {
    PERGOLA_ASSIGN_OR_RETURN(files->tokenizer,
                             tokenizers::LoadTokenizerJson(path + "/tokenizer.json"));
  }
  return OkStatus();
}

Status ReadGguf(const std::string& path, ModelFiles* files) {
  PERGOLA_ASSIGN_OR_RETURN(files->source, formats::OpenTensorSource(path));
  if (files->source->format() != "gguf") {
    return InvalidArgumentError(path + ": a single " + std::string(files->source->format()) +
                                " file is no model; give the directory it lies in");
  }
  PERGOLA_ASSIGN_OR_RETURN(files->config, models::ReadGgufConfig(*files->source));
  PERGOLA_ASSIGN_OR_RETURN(files->pipeline,
                           models::ReadGgufPipeline(*files->source, files->config));
  if (files->tokenizer == nullptr) {
    PERGOLA_ASSIGN_OR_RETURN(files->tokenizer, tokenizers::LoadTokenizerGguf(*files->source));
  }
  return OkStatus();
}

}  // namespace

Result<ModelFiles> OpenModelFiles(const std::string& path,
                                  std::shared_ptr<const tokenizers::Tokenizer> tokenizer) {
  std::error_code error;
  const bool is_directory = fs::is_directory(path, error);
  if (!is_directory && !fs::exists(path, error)) {
    return NotFoundError("model '" + path + "' does not exist");
  }
  ModelFiles files;
  files.tokenizer = std::move(tokenizer);
  PERGOLA_RETURN_IF_ERROR(is_directory ? ReadDirectory(path, &files) : ReadGguf(path, &files));
  if (static_cast<int64_t>(files.tokenizer->num_added_tokens(false)) >= files.pipeline.max_tokens) {
    return InvalidArgumentError(path + ": a limit of " + std::to_string(files.pipeline.max_tokens) +
                                " tokens leaves no room for text");
  }
  return files;
}

}  // namespace pergola::engine
