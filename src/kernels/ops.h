// The seam between models and devices: at most 20 coarse operations over ragged batches.
//
//   std::unique_ptr<kernels::Ops> ops = ...;                       // kernels/select.h
//   PERGOLA_ASSIGN_OR_RETURN(auto w, ops->PrepareLinear(view, {}));
//   ops->Linear(x, *w, bias, Epilogue::kGeluErf, y);
//
// Letters: T tokens, S sequences, D width, N outputs, K inputs, H query heads, G key/value heads,
// W head width. Buffers are memory of the device of the Ops (Allocate); on a CPU plain memory.
//
// Rules of every operation (docs/numerics.md): a row's result depends on that row (for attention:
// its sequence) alone, bit for bit: not on T, on the other rows, or on the number of threads.
// Nothing allocates in the steady state. Shapes are the caller's promise (PERGOLA_DCHECK).
// Thread-confined: one caller at a time (LinearWeights and PrepareLinear are thread-safe).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "core/thread_pool.h"
#include "kernels/ops_types.h"
#include "kernels/weight_type.h"
#include "pergola/status.h"

namespace pergola::kernels {

// What a weight is in a model. Under 4-bit weights kAuto may round the rows before it to 8 bits; of
// these roles the first bears that best (docs/numerics.md).
enum class LinearRole {
  kUp,             // of a feed-forward block
  kQueryOrOutput,  // of attention
  kGate,           // of a feed-forward block
  kOther,          // keys, values, down projections, layers after pooling: never
};

struct LinearOptions {
  ActivationPrecision activations = ActivationPrecision::kAuto;
  LinearRole role = LinearRole::kOther;    // the weight's
  LinearRole narrow_to = LinearRole::kUp;  // the last role whose rows the model bears in 8 bits
  // The rows are read where they lie, without a copy, if there is a kernel for their type: for
  // matrices that cost more memory than a faster layout brings, as a vocabulary's. Widened and
  // summed in f32, whatever `activations` says; not with converted weights.
  bool in_place = false;
  // What the weight is computed in, whatever the checkpoint stores: converted when prepared.
  WeightType weights = WeightType::kAsIs;
};

// y = epilogue(x . weight^T + bias).
struct LinearOutput {
  const LinearWeight* weight = nullptr;  // [N, K]
  const float* bias = nullptr;           // f32 [N], read; null = none
  Epilogue epilogue = Epilogue::kNone;
  F32Matrix y;  // f32 [T, N], written (kAdd: in-place)
};

struct AttentionOptions {
  int64_t num_heads = 0;     // H
  int64_t num_kv_heads = 0;  // G, divides H; query head h reads key/value head h / (H / G)
  int64_t head_width = 0;    // W
  float scale = 1.0f;        // of q . k
  AttentionMask mask;
  // Optional additive bias per head and distance, [H, 2 * bias_reach + 1]: key j of query i gets
  // bias[h][clamp(j - i, -bias_reach, bias_reach) + bias_reach] after scaling. Null = none.
  const float* distance_bias = nullptr;
  int64_t bias_reach = 0;
  // Optional: their products with query and key are added to q . k, before scaling. Null = none.
  const DistanceVectors* distance_vectors = nullptr;
  // Queries, keys, values and probabilities may be rounded to bf16, which some instruction sets
  // multiply twice as fast: for models whose rows lose more in products. Sums stay in f32.
  bool round_to_bf16 = false;
  // Keys before the first query's own, of a key/value cache: k and v then have `past` rows more
  // than q, and query i stands at position past + i. Only for a batch of one sequence.
  int64_t past = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // "reference", "scalar", "avx2", ...
  virtual std::string_view name() const = 0;
  // What a product with weights of `dtype` computes in, for example "q8_0 x i16-row, avx2" or, of
  // converted weights, "f32 as q8_0 x i16-row, avx2"; part of cache keys, because two classes are
  // not bit-equal. `options.role` doesn't matter.
  virtual std::string numeric_class(DType dtype, const LinearOptions& options) const = 0;
  // The threads that the operations run on; owned by this Ops.
  virtual ThreadPool& threads() = 0;

  // Prepares a weight [N, K] of any supported dtype; repacks in parallel where the kernel wants it.
  // UNIMPLEMENTED naming the dtype; INVALID_ARGUMENT when K is no whole number of blocks.
  virtual Result<std::unique_ptr<LinearWeight>> PrepareLinear(TensorView weight,
                                                              const LinearOptions& options) = 0;

  // Products of the same rows: the bits of one after the other, but x is brought into the weights'
  // format once, and the threads meet once. No output overlaps x or another one.
  //   x  f32 [T, K]  read
  virtual void Linears(ConstF32Matrix x, std::span<const LinearOutput> outputs) = 0;
  // The only one.
  void Linear(ConstF32Matrix x, const LinearWeight& weight, const float* bias, Epilogue epilogue,
              F32Matrix y) {
    const LinearOutput output{&weight, bias, epilogue, y};
    Linears(x, {&output, 1});
  }

  // y[t] = scale * table[ids[t]], or y[t] += ... when `accumulate`.
  //   table  any dtype [V, D]  read
  //   ids    i32 [T]           read; 0 <= id < V is the caller's promise
  //   y      f32 [T, D]        written (accumulate: in-place)
  virtual void Gather(TensorView table, std::span<const int32_t> ids, float scale, bool accumulate,
                      F32Matrix y) = 0;

  // y = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias, row by row; population variance.
  //   x [T, D] read;  weight, bias f32 [D] read (bias may be null);  y [T, D] written, may be x
  virtual void LayerNorm(ConstF32Matrix x, const float* weight, const float* bias, float epsilon,
                         F32Matrix y) = 0;

  // y = x / sqrt(mean(x^2) + epsilon) * weight, over groups of `width` columns (width divides the
  // number of columns; width = cols: whole rows; width = W: per head).
  //   x [T, C] read;  weight f32 [width] read;  y [T, C] written, may be x
  virtual void RmsNorm(ConstF32Matrix x, const float* weight, int64_t width, float epsilon,
                       F32Matrix y) = 0;

  // y = y + x / sqrt(mean(x^2) + epsilon) * weight: the sandwich norm's second half.
  //   x [T, D] read;  weight f32 [D] read;  y [T, D] in-place
  virtual void RmsNormAdd(ConstF32Matrix x, const float* weight, float epsilon, F32Matrix y) = 0;

  // y = y + x.   x [T, D] read;  y [T, D] in-place
  virtual void Add(ConstF32Matrix x, F32Matrix y) = 0;

  // gate = activation(gate) * up.   gate [T, F] in-place;  up [T, F] read
  // `activation` is kGeluTanh, kGeluErf, kSilu or kRelu.
  virtual void GatedActivation(Epilogue activation, F32Matrix gate, ConstF32Matrix up) = 0;

  // Rotates pairs (k, k + W/2) of each head by the angle of the row's position:
  //   (a, b) -> (a cos - b sin, a sin + b cos)
  //   x          f32 [T, heads * W]        in-place
  //   cos_sin    f32 [P, W]                read; row p = W/2 cosines then W/2 sines
  //   positions  i32 [T]                   read; < P
  virtual void Rope(F32Matrix x, int64_t head_width, const float* cos_sin,
                    std::span<const int32_t> positions) = 0;

  // out = softmax(scale * q k^T + bias, masked) v, per sequence and head, streaming over keys.
  //   q    f32 [T, H * W]  read
  //   k,v  f32 [T, G * W]  read (parts of one buffer are fine: strides); [past + T, G * W] with
  //                        options.past, and the same bits as in one pass over all rows
  //   out  f32 [T, H * W]  written; no overlap
  virtual void Attention(ConstF32Matrix q, ConstF32Matrix k, ConstF32Matrix v,
                         const RaggedView& batch, const AttentionOptions& options,
                         F32Matrix out) = 0;

  // One row per sequence.   x [T, D] read;  y [S, D] written
  virtual void Pool(ConstF32Matrix x, const RaggedView& batch, PoolingKind kind, F32Matrix y) = 0;
};

}  // namespace pergola::kernels
