// What a checkpoint says of its architecture, whether in config.json or in GGUF metadata.
//
//   PERGOLA_ASSIGN_OR_RETURN(ModelConfig config, ReadHfConfig(directory + "/config.json"));
//
// Every number has been checked against what a forward pass can take, so models need no checks of
// their own. The pipeline after the encoder (pooling, dense, norm) is pipeline_config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/ops_types.h"
#include "pergola/status.h"

namespace pergola::models {

// Which names the tensors have.
enum class TensorNaming { kHuggingFace, kGguf };

struct ModelConfig {
  std::string architecture;  // "bert", "distilbert", "mpnet", "gemma3_text"
  TensorNaming naming = TensorNaming::kHuggingFace;

  int64_t vocab_size = 0;         // V
  int64_t hidden_size = 0;        // D
  int64_t num_layers = 0;         // L
  int64_t num_heads = 0;          // H
  int64_t num_kv_heads = 0;       // G
  int64_t head_width = 0;         // W
  int64_t intermediate_size = 0;  // F
  int64_t max_positions = 0;      // longest sequence, special tokens included
  float norm_epsilon = 0;
  kernels::Epilogue activation = kernels::Epilogue::kGeluErf;

  // BERT family.
  int64_t num_token_types = 0;   // 0: no token type embedding
  int64_t position_offset = 0;   // row of the position table that position 0 reads
  int64_t relative_buckets = 0;  // mpnet: buckets of the attention bias; 0: none

  // Gemma family.
  double rope_base = 0;
  double rope_local_base = 0;  // of sliding layers
  bool bidirectional = false;
  int64_t sliding_window = 0;         // as the file has it; 0: none
  std::vector<bool> layer_is_full;    // [L]; the others slide
  float attention_scale = 0;          // of q . k
  bool norm_weight_plus_one = false;  // norms multiply by 1 + w
};

// From a Hugging Face config.json. UNIMPLEMENTED naming a model_type or setting that is not
// supported; INVALID_ARGUMENT naming a key that is missing or out of range.
Result<ModelConfig> ReadHfConfig(const std::string& path);

// From GGUF metadata (`bert`, `gemma-embedding` architectures). Same errors.
Result<ModelConfig> ReadGgufConfig(const formats::TensorSource& source);

}  // namespace pergola::models
