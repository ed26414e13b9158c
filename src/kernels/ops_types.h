// Types that the operations of ops.h take besides tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace pergola::kernels {

// A weight matrix [N, K] in the layout that an Ops wants (repacked, or just the mapped bytes).
// Immutable and thread-safe. Made by Ops::PrepareLinear, only valid with the Ops that made it; when
// it does not own a copy the tensor's mapping must outlive it.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  virtual int64_t outputs() const = 0;     // N
  virtual int64_t inputs() const = 0;      // K
  virtual DType dtype() const = 0;         // that it is computed from
  virtual size_t owned_bytes() const = 0;  // memory beyond the mapping
  // Its products rotate the rows and round them to bytes (docs/numerics.md).
  virtual bool rotates_rows() const { return false; }
};

// What Linear does with each sum before it is stored.
enum class Epilogue {
  kNone,      // y = s
  kGeluErf,   // y = s/2 * (1 + erf(s / sqrt(2)))
  kGeluTanh,  // y = s/2 * (1 + tanh(sqrt(2/pi) * (s + 0.044715 s^3)))
  kSilu,      // y = s / (1 + exp(-s))
  kRelu,      // y = max(s, 0)
  kTanh,      // y = tanh(s)
  kAdd,       // y = y + s (residual; y is read)
};

// How Linear treats activations of a quantised weight.
enum class ActivationPrecision {
  kF32,   // reference mode: weights are widened, sums in f32
  kAuto,  // the fastest class that keeps its documented error (see Ops::numeric_class)
};

// Which keys a query position sees. Positions are relative to the sequence.
struct AttentionMask {
  // A query at i sees keys j with i - j <= left and j - i <= right. kUnlimited = no bound.
  static constexpr int32_t kUnlimited = INT32_MAX;
  int32_t left = kUnlimited;
  int32_t right = kUnlimited;  // 0 = causal
};

// What a query and a key add to their score by their distance alone (disentangled attention, He et
// al. 2020): R vectors of width W per query head. Views; what they show must outlive the call.
struct DistanceVectors {
  // Which vector belongs to key - query = d: rows[clamp(d, -reach, reach) + reach], [2 * reach +
  // 1]. The first is 0, each next one the same or one more; all are below R.
  std::span<const int32_t> rows;
  // f32 [H * R, W], R a multiple of kRowMultiple; null: no such term.
  const LinearWeight* keys = nullptr;     // multiplied with the query ("content to position")
  const LinearWeight* queries = nullptr;  // multiplied with the key ("position to content")

  static constexpr int64_t kRowMultiple = 16;
  int64_t reach() const { return static_cast<int64_t>(rows.size()) / 2; }
};

enum class PoolingKind { kMean, kCls, kLastToken };

// Sequences end to end. `cu_seqlens` [S + 1] ascends from 0 to T; sequence s owns rows
// [cu_seqlens[s], cu_seqlens[s + 1]). No sequence is empty.
struct RaggedView {
  std::span<const int32_t> cu_seqlens;
  int64_t num_sequences() const { return static_cast<int64_t>(cu_seqlens.size()) - 1; }
  int64_t num_tokens() const { return cu_seqlens.back(); }
};

}  // namespace pergola::kernels
