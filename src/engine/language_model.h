// A causal language model made ready to run: a forward pass with a cache, the projection to the
// vocabulary, a tokenizer; or only some of these, the rest being computed elsewhere.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto model, LanguageModel::Load("gemma-3-270m.gguf", {}));
//   Generator generator(*model, {});
//
// engine/model.h is for embedders: the same files, without a cache.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/checkpoint.h"
#include "kernels/ops.h"
#include "kernels/select.h"
#include "models/encoder.h"
#include "models/vocabulary_head.h"
#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::engine {

struct LanguageModelOptions {
  kernels::OpsOptions ops;
  // kF32: quantised weights are widened and computed in f32 (the reference mode).
  kernels::ActivationPrecision activations = kernels::ActivationPrecision::kAuto;
  // Most tokens of a sequence; tables of rotary positions have a row for each. At most what the
  // model was trained for.
  int64_t max_positions = 4096;
  // What is loaded. Without embeddings, feed-forward or head they come through the generator's
  // ports.
  bool embeddings = true;
  bool feed_forward = true;
  bool head = true;
};

// Immutable after loading; one thread at a time may run it.
class LanguageModel {
 public:
  // INVALID_ARGUMENT when the model is none that predicts tokens; else as OpenCheckpoint, naming
  // the tensor.
  static Result<std::unique_ptr<LanguageModel>> Load(const std::string& path,
                                                     const LanguageModelOptions& options);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const models::ModelConfig& config() const { return checkpoint_.config; }
  const formats::TensorSource& source() const { return *checkpoint_.source; }
  const models::Encoder& encoder() const { return *encoder_; }
  const models::VocabularyHead* head() const { return head_ ? &*head_ : nullptr; }
  const tokenizers::Tokenizer& tokenizer() const { return *tokenizer_; }
  kernels::Ops& ops() const { return *ops_; }
  // Of the products of the whole model, whichever part is loaded.
  const std::string& numeric_class() const { return numeric_class_; }
  size_t owned_bytes() const;

 private:
  LanguageModel() = default;

  std::unique_ptr<kernels::Ops> ops_;
  Checkpoint checkpoint_;
  std::unique_ptr<tokenizers::Tokenizer> tokenizer_;
  std::unique_ptr<models::Encoder> encoder_;
  std::optional<models::VocabularyHead> head_;
  std::string numeric_class_;
};

}  // namespace pergola::engine
