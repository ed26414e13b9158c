// Self-attention over a ragged batch, as every architecture here has it: projections (apart or
// fused), optional norms of the heads, optional rotary positions, attention, output projection.
//
//   PERGOLA_ASSIGN_OR_RETURN(weights, ReadAttention(reader, "layers.0.", names, shape));
//   SelfAttention(ops, weights, settings, batch, workspace, normed, Epilogue::kNone, projected);
//
// Letters: T tokens, D width, H query heads, G key/value heads, W head width.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "models/encoder.h"
#include "models/weight_reader.h"
#include "models/workspace.h"

namespace pergola::models {

struct AttentionWeights {
  // [(H + 2G) W, D], of the role that keys and values bear; no weight: the next three.
  LinearLayer qkv;
  LinearLayer query, key, value;            // [H W, D], [G W, D], [G W, D]
  std::vector<float> query_norm, key_norm;  // [W]; empty: none
  std::vector<float> value_norm;            // [W]; empty: none
  LinearLayer output;                       // [D, H W]
};

// Names of the tensors under a layer's prefix, without ".weight"; empty: the model has none.
struct AttentionNames {
  std::string_view qkv = {};
  std::string_view query = {};
  std::string_view key = {};
  std::string_view value = {};
  std::string_view query_norm = {};
  std::string_view key_norm = {};
  std::string_view output = {};
};

struct AttentionShape {
  int64_t hidden_size = 0;   // D
  int64_t num_heads = 0;     // H
  int64_t num_kv_heads = 0;  // G
  int64_t head_width = 0;    // W
  bool qkv_bias = false;
  bool output_bias = false;
  // Rows of query and key lie as llama.cpp's converter leaves them for `llama`: within a head, row
  // 2 k + j holds what the checkpoint has in row j W/2 + k. They are put back on reading.
  bool interleaved_heads = false;
  // Norms of the heads multiply by 1 + w.
  bool norm_weight_plus_one = false;
};

// Errors name the tensor.
Result<AttentionWeights> ReadAttention(WeightReader& reader, const std::string& prefix,
                                       const AttentionNames& names, const AttentionShape& shape);

// What a layer's attention does besides its weights.
struct AttentionSettings {
  kernels::AttentionOptions options;
  const float* rope = nullptr;  // [P, W], see rope_table.h; null: no rotary positions
  float norm_epsilon = 0;       // of the norms of the heads
  int64_t layer = 0;            // of the batch's caches
};

// y = epilogue(output(attention(x))).
//   x  f32 [T, D]  read
//   y  f32 [T, D]  written (kAdd: in-place); may be x with kAdd
// Uses the workspace's kQkv and kAttention. With caches, keys and values are staged in them and
// each sequence attends to all that its cache then holds.
void SelfAttention(kernels::Ops& ops, const AttentionWeights& weights,
                   const AttentionSettings& settings, const Batch& batch, Workspace& workspace,
                   ConstF32Matrix x, kernels::Epilogue epilogue, F32Matrix y);

}  // namespace pergola::models
