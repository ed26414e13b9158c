#include "engine/language_model.h"

#include <algorithm>
#include <utility>

#include "models/registry.h"

namespace pergola::engine {

Result<std::unique_ptr<LanguageModel>> LanguageModel::Load(const std::string& path,
                                                           const LanguageModelOptions& options) {
  std::unique_ptr<LanguageModel> model(new LanguageModel);
  PERGOLA_ASSIGN_OR_RETURN(model->ops_, kernels::MakeOps(options.ops));
  PERGOLA_ASSIGN_OR_RETURN(model->checkpoint_, OpenCheckpoint(path));
  models::ModelConfig& config = model->checkpoint_.config;
  PERGOLA_RETURN_IF_ERROR(CheckLanguageModel(config).WithContext(path));
  config.parts = {.embeddings = options.embeddings,
                  .feed_forward = options.feed_forward,
                  .final_norm = false};  // the head's affair
  config.max_positions = std::min(config.max_positions, options.max_positions);
  const formats::TensorSource& source = *model->checkpoint_.source;
  const kernels::LinearOptions linear{.activations = options.activations};
  PERGOLA_ASSIGN_OR_RETURN(model->tokenizer_, LoadTokenizer(model->checkpoint_));
  const ThreadPool::Pass pass(model->ops_->threads());  // weights are repacked in parallel
  PERGOLA_ASSIGN_OR_RETURN(model->encoder_,
                           models::LoadEncoder(config, source, *model->ops_, linear));
  if (options.head) {
    PERGOLA_ASSIGN_OR_RETURN(models::VocabularyHead head,
                             models::VocabularyHead::Load(config, source, *model->ops_, linear));
    model->head_ = std::move(head);
  }
  PERGOLA_ASSIGN_OR_RETURN(model->numeric_class_,
                           ModelNumericClass(model->checkpoint_, *model->ops_, linear));
  return model;
}

size_t LanguageModel::owned_bytes() const {
  return encoder_->owned_bytes() + (head_ ? head_->owned_bytes() : 0);
}

}  // namespace pergola::engine
