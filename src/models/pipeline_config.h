// What happens around the encoder: prompts before it, pooling, dense layers and normalisation
// after.
//
// sentence-transformers folders say so in modules.json and the folders it names; GGUF files in
// their metadata; a folder without modules.json gets mean pooling and normalisation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/ops_types.h"
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

struct PipelineConfig {
  kernels::PoolingKind pooling = kernels::PoolingKind::kMean;
  std::vector<DenseConfig> dense;
  bool normalise = false;
  // Longest input in tokens, special tokens included; at most what the encoder can take.
  int64_t max_tokens = 0;
  std::map<std::string, std::string, std::less<>> prompts;
  std::string default_prompt_name;
};

// `max_positions` of the encoder caps max_tokens. UNIMPLEMENTED naming a module or pooling mode
// that is not supported.
Result<PipelineConfig> ReadSentencePipeline(const std::string& directory, int64_t max_positions);
Result<PipelineConfig> ReadGgufPipeline(const formats::TensorSource& source, int64_t max_positions);

}  // namespace pergola::models
