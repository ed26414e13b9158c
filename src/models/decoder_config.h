// Configurations of decoder-style models, which decoder.h runs.
#pragma once

#include "models/config_reader.h"

namespace pergola::models {

// From a config.json of `model_type` gemma3_text.
Result<ModelConfig> ReadGemma3Config(const JsonObject& json);
// qwen3, and bidirectional_pplx_qwen3 (pplx-embed: the same without a causal mask).
Result<ModelConfig> ReadQwen3Config(const JsonObject& json);
// llama and mistral. `is_causal` false or `use_bidirectional_attention` true removes the causal
// mask.
Result<ModelConfig> ReadLlamaConfig(const JsonObject& json);
// llama.cpp's `gemma-embedding`, `qwen3` and `llama` (Mistral too).
Result<ModelConfig> ReadGemmaEmbeddingGguf(const GgufKeys& keys);
Result<ModelConfig> ReadGemma3Gguf(const GgufKeys& keys);
Result<ModelConfig> ReadQwen3Gguf(const GgufKeys& keys);
Result<ModelConfig> ReadLlamaGguf(const GgufKeys& keys);

}  // namespace pergola::models
