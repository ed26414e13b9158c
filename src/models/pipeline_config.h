// What happens around the encoder: prompts before it, heads (pooling, layers) and normalisation
// after.
//
// sentence-transformers folders say so in modules.json and the folders it names; GGUF files in
// their metadata. A folder without modules.json gets mean pooling (a causal model: the last token)
// and normalisation (pplx-embed: none), or no embedding when it is a classifier.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "models/config.h"
#include "models/head_config.h"
#include "pergola/status.h"

namespace pergola::models {

// How a row is read as numbers other than floats.
enum class OutputConvention {
  // int8: the row scaled so that its largest value is +-127; bits: the sign.
  kScaled,
  // Trained for int8: clamp(round(127 tanh(x)), -128, 127) of the row as it is, halves to even;
  // bits: the sign of x. Such rows are not normalised (pplx-embed).
  kTanhInt8,
};

struct PipelineConfig {
  // At most one of a kind. A model without an embedding head gives no embeddings.
  std::vector<HeadConfig> heads;
  // Embeddings are brought to unit length.
  bool normalise = false;
  OutputConvention output = OutputConvention::kScaled;
  // Longest input in tokens, special tokens included; at most what the encoder can take.
  int64_t max_tokens = 0;
  std::map<std::string, std::string, std::less<>> prompts;
  std::string default_prompt_name;
  // Widths that the model was trained to be cut to, largest first (Matryoshka); empty: not
  // declared.
  std::vector<int64_t> matryoshka_widths;
  // Of the logits.
  ClassifierConfig classifier;
  // Token between the chunks of a document, where the model was trained to embed chunks in the
  // light of their neighbours (pplx-embed-context); empty: it was not.
  std::string chunk_separator;

  // Null when there is none.
  const HeadConfig* FindHead(OutputKind kind) const;
};

// The encoder's max_positions caps max_tokens. UNIMPLEMENTED naming a module or pooling mode
// that is not supported. `source` are the model's own tensors.
// Checkpoints do not declare Matryoshka widths: they are known by architecture and width.
Result<PipelineConfig> ReadSentencePipeline(const std::string& directory, const ModelConfig& config,
                                            const formats::TensorSource& source);
Result<PipelineConfig> ReadGgufPipeline(const formats::TensorSource& source,
                                        const ModelConfig& config);

// Keys that GGUF files of our own writing have beside llama.cpp's, which passes over them: what a
// folder says of texts. Prompts are two arrays of equal length, names and texts.
inline constexpr const char* kGgufNormaliseKey = "pergola.normalise";  // absent: true
inline constexpr const char* kGgufMaxTokensKey = "pergola.max_tokens";
inline constexpr const char* kGgufPromptNamesKey = "pergola.prompt_names";
inline constexpr const char* kGgufPromptTextsKey = "pergola.prompt_texts";
inline constexpr const char* kGgufDefaultPromptKey = "pergola.default_prompt_name";

}  // namespace pergola::models
