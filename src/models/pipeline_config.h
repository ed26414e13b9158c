// What happens around the encoder: prompts before it, pooling, dense layers and normalisation
// after.
//
// sentence-transformers folders say so in modules.json and the folders it names; GGUF files in
// their metadata. A folder without modules.json gets mean pooling (a causal model: the last token)
// and normalisation (pplx-embed: none).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/ops_types.h"
#include "models/config.h"
#include "pergola/status.h"

namespace pergola::models {

struct DenseConfig {
  std::string directory;  // with model.safetensors ("linear.weight", "linear.bias"); HF only
  std::string tensor;     // name of the weight in the model's own file; GGUF only
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = false;
  kernels::Epilogue activation = kernels::Epilogue::kNone;
};

// How a row is read as numbers other than floats.
enum class OutputConvention {
  // int8: the row scaled so that its largest value is +-127; bits: the sign.
  kScaled,
  // Trained for int8: clamp(round(127 tanh(x)), -128, 127) of the row as it is, halves to even;
  // bits: the sign of x. Such rows are not normalised (pplx-embed).
  kTanhInt8,
};

struct PipelineConfig {
  kernels::PoolingKind pooling = kernels::PoolingKind::kMean;
  std::vector<DenseConfig> dense;
  bool normalise = false;
  OutputConvention output = OutputConvention::kScaled;
  // Longest input in tokens, special tokens included; at most what the encoder can take.
  int64_t max_tokens = 0;
  std::map<std::string, std::string, std::less<>> prompts;
  std::string default_prompt_name;
  // Widths that the model was trained to be cut to, largest first (Matryoshka); empty: not
  // declared.
  std::vector<int64_t> matryoshka_widths;
};

// The encoder's max_positions caps max_tokens. UNIMPLEMENTED naming a module or pooling mode
// that is not supported.
// Checkpoints do not declare Matryoshka widths: they are known by architecture and width.
Result<PipelineConfig> ReadSentencePipeline(const std::string& directory,
                                            const ModelConfig& config);
Result<PipelineConfig> ReadGgufPipeline(const formats::TensorSource& source,
                                        const ModelConfig& config);

}  // namespace pergola::models
