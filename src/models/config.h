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
#include "models/blocks/distance_vectors.h"
#include "models/blocks/rope_table.h"
#include "pergola/status.h"

namespace pergola::models {

// Which names the tensors have.
enum class TensorNaming { kHuggingFace, kGguf };

// How a model knows where a token stands.
enum class PositionKind {
  kLearned,  // a table of rows added to the embeddings
  kRotary,   // queries and keys rotated by the angle of their position
  kNone,     // by what attention does with distances alone
};

// Which parts of a model are read; tensors of the others need not be there. Only decoder.h reads
// less than all.
struct ModelParts {
  bool embeddings = true;
  bool feed_forward = true;
  bool final_norm = true;
};

struct ModelConfig {
  // `model_type` of config.json: "bert", "qwen3"; also for GGUF files.
  std::string architecture;
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
  float attention_scale = 0;  // of q . k
  kernels::Epilogue activation = kernels::Epilogue::kGeluErf;
  // Which linear layers have a bias.
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool ffn_up_bias = false;  // and the gate's
  bool ffn_down_bias = false;
  bool norm_bias = true;  // of layer norms; RMS norms have none

  PositionKind positions = PositionKind::kLearned;
  RopeParameters rope;                  // kRotary; where some layers slide, of the full ones
  RopeParameters rope_local;            // of sliding layers
  int64_t position_offset = 0;          // kLearned: row of the position table that position 0 reads
  bool alibi = false;                   // jina_bert: heads see less of what is further away
  int64_t relative_buckets = 0;         // mpnet: buckets of the attention bias; 0: none
  DisentangledParameters disentangled;  // deberta-v2; neither keys nor queries: none
  int64_t num_token_types = 0;          // 0: no token type embedding

  bool causal = false;
  std::vector<bool> layer_is_full;  // [L]; the others slide; empty: all are full
  // In sliding layers a key further away than this is hidden (from a causal model also every later
  // key).
  int64_t sliding_reach = 0;

  // Decoder blocks.
  bool norm_query_key = false;        // heads of queries and keys are normalised
  bool norm_block_outputs = false;    // also the outputs of attention and FFN (sandwich norms)
  bool norm_weight_plus_one = false;  // norms multiply by 1 + w
  bool scale_embeddings = false;      // by sqrt(D)
  bool interleaved_heads = false;     // llama.cpp's order of the rows of queries and keys

  // Language models.
  float final_logit_softcap = 0;  // logits become cap * tanh(logits / cap); 0: as they are
  std::vector<int32_t> end_ids;   // tokens that end a text
  ModelParts parts;

  // embedding_gemma2.
  int64_t full_head_width = 0;    // W of full layers
  int64_t full_num_kv_heads = 0;  // G of full layers
  int64_t layer_input_width = 0;  // width of a layer's own input
  int64_t output_width = 0;       // E of the projection after the final norm
};

// From a Hugging Face config.json. UNIMPLEMENTED naming a model_type or setting that is not
// supported, and the supported architecture whose name is nearest; INVALID_ARGUMENT naming a key
// that is missing or out of range.
Result<ModelConfig> ReadHfConfig(const std::string& path);

// From GGUF metadata. Same errors.
Result<ModelConfig> ReadGgufConfig(const formats::TensorSource& source);

}  // namespace pergola::models
