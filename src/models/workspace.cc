#include "models/workspace.h"

namespace pergola::models {

F32Matrix Workspace::Get(Slot slot, int64_t rows, int64_t cols) {
  Buffer& buffer = buffers_[slot];
  const int64_t needed = rows * cols;
  if (needed > buffer.capacity) {
    buffer.memory.reset();  // before the new one: never both
    const auto bytes = static_cast<size_t>(needed) * sizeof(float);
    buffer.memory.reset(static_cast<float*>(AllocateLarge(bytes)));
    buffer.capacity = needed;
  }
  return {buffer.memory.get(), rows, cols};
}

size_t Workspace::bytes() const {
  size_t total = 0;
  for (const Buffer& buffer : buffers_)
    total += static_cast<size_t>(buffer.capacity) * sizeof(float);
  return total;
}

}  // namespace pergola::models
