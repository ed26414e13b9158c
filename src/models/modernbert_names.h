// What the tensors of ModernBERT are called: for the forward pass (modernbert.h) and for writing
// GGUF files (gguf_export.h).
#pragma once

#include <string_view>

#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"
#include "models/config.h"

namespace pergola::models {

struct ModernBertNames {
  std::string_view word, embedding_norm, final_norm, layer;
  std::string_view attention_norm, ffn_norm;
  AttentionNames attention;
  FfnNames ffn;
};

const ModernBertNames& ModernBertNamesOf(const ModelConfig& config);

}  // namespace pergola::models
