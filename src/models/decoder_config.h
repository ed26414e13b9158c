// Configurations of decoder-style models, which decoder.h runs.
#pragma once

#include "models/config_reader.h"

namespace pergola::models {

// From a config.json of `model_type` gemma3_text.
Result<ModelConfig> ReadGemma3Config(const JsonObject& json);
// qwen2 and qwen3, and bidirectional_pplx_qwen3 (pplx-embed: qwen3 without a causal mask).
Result<ModelConfig> ReadQwenConfig(const JsonObject& json);
// llama, mistral, and eurobert, which has no causal mask. `is_causal` false or
// `use_bidirectional_attention` true removes the causal mask.
Result<ModelConfig> ReadLlamaConfig(const JsonObject& json);
// llama.cpp's `gemma-embedding`, `gemma3`, `qwen2`, `qwen3`, `eurobert`, `llama` (Mistral too) and
// `llama-embed` (the same without a causal mask).
Result<ModelConfig> ReadGemmaEmbeddingGguf(const GgufKeys& keys);
Result<ModelConfig> ReadGemma3Gguf(const GgufKeys& keys);
Result<ModelConfig> ReadQwen2Gguf(const GgufKeys& keys);
Result<ModelConfig> ReadQwen3Gguf(const GgufKeys& keys);
Result<ModelConfig> ReadEuroBertGguf(const GgufKeys& keys);
Result<ModelConfig> ReadLlamaGguf(const GgufKeys& keys);
Result<ModelConfig> ReadLlamaEmbedGguf(const GgufKeys& keys);

}  // namespace pergola::models
