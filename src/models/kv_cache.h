// Keys and values of the tokens that a sequence has had, so that a causal model computes only what
// is new.
//
//   KvCache cache(num_layers, key_width);
//   Batch batch{..., .caches = caches};    // one per sequence
//   PERGOLA_RETURN_IF_ERROR(encoder.Forward(batch, workspace, hidden));   // cache.length() grew
//
// A forward pass writes behind the rows that count and makes them count only when it ends well: one
// that fails half-way (a remote block is down) leaves the cache as it was, and can be repeated.
// Embedders have none. Letters: G key/value heads, W head width.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace pergola::models {

// Of one sequence. Grows by doubling. Thread-confined.
class KvCache {
 public:
  // `key_width`: G * W.
  KvCache(int64_t num_layers, int64_t key_width)
      : key_width_(key_width), layers_(static_cast<size_t>(num_layers)) {}

  int64_t length() const { return length_; }  // tokens
  size_t bytes() const;

  // Copies rows behind the `length()` that count; what was staged there before is overwritten.
  //   keys, values  f32 [T, G * W]  read
  void Stage(int64_t layer, ConstF32Matrix keys, ConstF32Matrix values);
  // f32 [length() + staged rows, G * W]; until the next Stage of the layer.
  ConstF32Matrix keys(int64_t layer) const { return Rows(layer, 0); }
  ConstF32Matrix values(int64_t layer) const { return Rows(layer, 1); }

  // `rows` more tokens, staged in every layer, count from now on.
  void Commit(int64_t rows) { length_ += rows; }
  // Forgets all tokens from `length` on.
  void Truncate(int64_t length) { length_ = length; }

 private:
  struct Layer {
    std::vector<float> planes[2];  // keys, values
    int64_t rows = 0;              // with the staged ones
  };

  ConstF32Matrix Rows(int64_t layer, int plane) const {
    const Layer& held = layers_[static_cast<size_t>(layer)];
    return {held.planes[plane].data(), held.rows, key_width_};
  }

  int64_t key_width_;
  int64_t length_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace pergola::models
