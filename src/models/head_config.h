// What a checkpoint makes of the encoder's rows: embeddings, class logits, sparse weights, vectors
// for late interaction. A head takes token rows or one pooled row and sends it through a chain of
// layers; all kinds of output are heads.
//
//   embedding       pooled;  no layers, or the Dense modules of sentence-transformers
//   logits          pooled;  for example dense, tanh, classifier
//   sparse          per token; one linear layer to a single value, relu
//   multi-vector    per token; one linear layer
//
// Only what the files say: engine/heads.h loads and runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/sequence.h"
#include "formats/tensor_source.h"
#include "kernels/ops_types.h"
#include "models/config.h"
#include "models/json_object.h"
#include "pergola/status.h"

namespace pergola::models {

// y = norm(activation(x . weight^T + bias))
struct HeadLayerConfig {
  // Safetensors file, or folder with one, that holds the layer; empty: the model's own source.
  std::string file = {};
  // Tensors `linear`.weight [outputs, inputs] and, if `bias`, `linear`.bias; empty: "weight",
  // "bias".
  std::string linear = {};
  bool bias = true;
  int64_t inputs = 0;   // as declared; 0: nothing is declared
  int64_t outputs = 0;  // the same
  kernels::Epilogue activation = kernels::Epilogue::kNone;
  // Layer norm after the activation; empty: none.
  std::string norm = {};
  bool norm_bias = false;
  float norm_epsilon = 0;
  // Not all rows of the weight but those of these tokens, in this order; empty: all.
  std::vector<std::string> tokens = {};
  // Two rows become one, the first minus the second: its sigmoid is the first's softmax.
  bool difference = false;
};

struct HeadConfig {
  OutputKind kind = OutputKind::kEmbedding;
  kernels::PoolingKind pooling = kernels::PoolingKind::kMean;  // of kinds that are not per token
  std::vector<HeadLayerConfig> layers = {};
  // Multi-vector: rows of the first tokens that take no part in late interaction.
  int64_t skipped_rows = 0;
};

// What turns logits into scores.
enum class ScoreFunction {
  kSigmoid,  // of each: one label (a reranker), or several that do not exclude each other
  kSoftmax,
};

// How a query and a document become one text for a language model that judges the pair. The tokens
// of prefix and suffix are never cut, those between may be.
struct PairTemplate {
  std::string prefix;
  std::string body;  // with {instruction}, {query} and {document}
  std::string suffix;
  std::string default_instruction;
};

// Facts of a classification head beside its layers.
struct ClassifierConfig {
  std::vector<std::string> labels;  // by output; empty: the file names none
  ScoreFunction function = ScoreFunction::kSoftmax;
  std::optional<PairTemplate> pair_template = {};  // none: the tokenizer joins pairs
};

// The heads of a Hugging Face folder other than the embedding. `config_json` is its config.json.
//   logits        architectures "...ForSequenceClassification"; or any causal language model with
//                 `classifier_from_token` in config.json: one token's logit, two tokens folded into
//                 one (the second against the first), or a label per token
//   sparse        sparse_linear.weight in the model's file, or a file sparse_linear.safetensors
//   multi-vector  colbert_linear.weight or a file colbert_linear.safetensors; architectures
//                 "HF_ColBERT": linear.weight
// UNIMPLEMENTED for a classification head of an architecture that has none here.
Result<std::vector<HeadConfig>> ReadTaskHeads(const std::string& directory,
                                              const JsonObject& config_json,
                                              const ModelConfig& config,
                                              const formats::TensorSource& source);

// Labels and scoring, for folders whose heads give logits.
Result<ClassifierConfig> ReadClassifier(const JsonObject& config_json, const ModelConfig& config);

// The same of a GGUF file whose pooling is `rank`: tensors cls (dense), cls.norm, cls.output.
// UNIMPLEMENTED without the dense layer that every encoder's head has: llama.cpp's converter leaves
// out BERT's, and scores without it would be wrong.
Result<HeadConfig> ReadGgufClassifierHead(const formats::TensorSource& source,
                                          const ModelConfig& config);
ClassifierConfig ReadGgufClassifier(const formats::TensorSource& source, const ModelConfig& config);

}  // namespace pergola::models
