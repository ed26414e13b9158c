// What the tensors of BERT-style models are called, family by family: for the forward pass (bert.h)
// and for writing GGUF files (gguf_export.h).
#pragma once

#include <array>
#include <string_view>

#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"
#include "models/config.h"

namespace pergola::models {

// Where a family keeps its tensors; layer names follow `layer` + index + ".".
struct BertNames {
  std::string_view architecture;
  TensorNaming naming;
  // What checkpoints of a task model ("BertForX") may put before every name.
  std::array<std::string_view, 2> task_prefixes = {};
  std::string_view word, position, type, embedding_norm;
  std::string_view relative_bias = {};
  std::string_view distance_table = {}, distance_norm = {};
  std::string_view layer;
  AttentionNames attention;
  std::string_view attention_norm;
  FfnNames ffn;
  std::string_view output_norm;
};

// Of the configuration's architecture and naming. UNIMPLEMENTED when there are none.
Result<const BertNames*> BertNamesOf(const ModelConfig& config);

}  // namespace pergola::models
