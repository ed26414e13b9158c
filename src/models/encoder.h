// The seam between an architecture's forward pass and whoever runs it: one Encoder per
// architecture, one ragged layout, on every device.
//
//   models::Batch batch{.ids = ids, .positions = positions, .cu_seqlens = cu_seqlens};
//   PERGOLA_RETURN_IF_ERROR(encoder->Forward(batch, workspace, hidden));
//
// Letters: T tokens, S sequences, D model width. An embedder keeps no key/value cache, causal or
// not; a language model may, and may have its first rows and its feed-forward blocks computed
// elsewhere: the same forward pass, with other ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "core/tensor.h"
#include "kernels/ops.h"
#include "models/ffn_port.h"
#include "models/kv_cache.h"
#include "pergola/status.h"

namespace pergola::models {

// Sequences end to end, no padding. Spans outlive the call.
struct Batch {
  std::span<const int32_t> ids;         // [T]
  std::span<const int32_t> positions;   // [T], from 0 in each sequence
  std::span<const int32_t> type_ids;    // [T], segment of each token; 0 for single texts
  std::span<const int32_t> cu_seqlens;  // [S + 1]

  // The rest is of decoder.h; other encoders answer UNIMPLEMENTED.
  //
  // [S]: what the tokens of each sequence follow; positions then go on from its length. It has
  // grown by them when Forward returns OK. Only for causal models. Empty: none.
  std::span<KvCache* const> caches = {};
  // f32 [T, D], as the embedding table and its scale give them: instead of `ids`, which are then
  // empty. Null data: none.
  ConstF32Matrix embedded = {};
  FfnPort* ffn = nullptr;  // null: the model's own blocks
  bool final_norm = true;  // false: `hidden` gets the residual before the final norm

  // True where only decoder.h can run it.
  bool needs_decoder() const {
    return !caches.empty() || embedded.data != nullptr || ffn != nullptr || !final_norm;
  }
  kernels::RaggedView ragged() const { return {cu_seqlens}; }
  int64_t num_tokens() const { return static_cast<int64_t>(positions.size()); }
};

// What every encoder but decoder.h begins with.
inline Status RefuseDecoderBatch(const Batch& batch) {
  if (!batch.needs_decoder()) return OkStatus();
  return UnimplementedError("this architecture has no cache and no part elsewhere");
}

// Scratch memory of a forward pass: buffers grow to the largest batch seen and stay. One per
// runner; thread-confined.
class Workspace;

// Sees the rows after a stage of the forward pass; for tests and diagnosis, null in the steady
// state.
enum class Stage {
  kEmbeddings,  // what the first layer gets
  kAttention,   // output of a layer's attention projection, before norm and residual
  kLayer,       // output of a layer
  kFinalNorm,
};
using StageObserver = std::function<void(Stage stage, int64_t layer, ConstF32Matrix rows)>;

inline void Observe(const StageObserver* observer, Stage stage, int64_t layer,
                    ConstF32Matrix rows) {
  if (observer != nullptr) (*observer)(stage, layer, rows);
}

// Immutable after loading; Forward is const, all state of a call is in the workspace and the batch.
class Encoder {
 public:
  virtual ~Encoder() = default;

  virtual int64_t hidden_width() const = 0;  // D
  virtual int64_t vocab_size() const = 0;    // ids must be below
  virtual int64_t max_positions() const = 0;
  // Memory beyond the mapping: repacked weights, tables.
  virtual size_t owned_bytes() const = 0;

  // hidden f32 [T, D] written: final hidden states (after the final norm).
  virtual Status Forward(const Batch& batch, Workspace& workspace, F32Matrix hidden,
                         const StageObserver* observer = nullptr) const = 0;
};

}  // namespace pergola::models
