#include "models/modernbert_names.h"

namespace pergola::models {
namespace {

constexpr ModernBertNames kHuggingFaceNames = {
    .word = "embeddings.tok_embeddings",
    .embedding_norm = "embeddings.norm",
    .final_norm = "final_norm",
    .layer = "layers.",
    .attention_norm = "attn_norm",
    .ffn_norm = "mlp_norm",
    .attention = {.qkv = "attn.Wqkv", .output = "attn.Wo"},
    .ffn = {.down = "mlp.Wo", .gate_and_up = "mlp.Wi"}};

constexpr ModernBertNames kGgufNames = {.word = "token_embd",
                                        .embedding_norm = "token_embd_norm",
                                        .final_norm = "output_norm",
                                        .layer = "blk.",
                                        .attention_norm = "attn_norm",
                                        .ffn_norm = "ffn_norm",
                                        .attention = {.qkv = "attn_qkv", .output = "attn_output"},
                                        .ffn = {.down = "ffn_down", .gate_and_up = "ffn_up"}};

}  // namespace

const ModernBertNames& ModernBertNamesOf(const ModelConfig& config) {
  return config.naming == TensorNaming::kHuggingFace ? kHuggingFaceNames : kGgufNames;
}

}  // namespace pergola::models
