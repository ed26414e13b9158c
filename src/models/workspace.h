// Scratch memory of a forward pass. Buffers grow to the largest batch seen and stay: nothing
// allocates in the steady state. Contents of a buffer are undefined when it is got.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/large_memory.h"
#include "core/tensor.h"

namespace pergola::models {

// One per runner; thread-confined.
class Workspace {
 public:
  enum Slot {
    kQkv,          // [T, (H + 2G) W]
    kAttention,    // [T, H W]
    kProjected,    // [T, D]: output of the attention projection or of the FFN
    kNormed,       // [T, D]
    kFfnInner,     // [T, F]
    kFfnUp,        // [T, F]
    kHidden,       // [T, D], or what the encoder makes of it at the end
    kResidual,     // [T, D]: the residual stream where it is not the hidden rows
    kLayerInputs,  // [T, L P]: what each layer mixes in
    kPooled,       // [S, D]
    kHeadA,        // [S or T, E]: outputs of the layers of a head, in turn
    kHeadB,        // [S or T, E]
    kNumSlots,
  };

  // 64-byte aligned, row stride = cols. Valid until Get is called again for the same slot.
  F32Matrix Get(Slot slot, int64_t rows, int64_t cols);

  // All that is held.
  size_t bytes() const;

 private:
  struct Buffer {
    std::unique_ptr<float, LargeDeleter> memory;
    int64_t capacity = 0;  // floats
  };
  std::array<Buffer, kNumSlots> buffers_;
};

}  // namespace pergola::models
