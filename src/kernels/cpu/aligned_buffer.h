// Memory aligned to a cache line that only ever grows: sized by the largest call so far, kept for
// the next.
//
//   AlignedBuffer buffer;
//   float* scores = buffer.Reserve<float>(count);   // contents are undefined after growth
//
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/large_memory.h"

namespace pergola::kernels::cpu {

class AlignedBuffer {
 public:
  // At least `count` values of T, uninitialised; pointers from before are invalid when it grows.
  template <typename T>
  T* Reserve(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > bytes_) Grow(bytes);
    return as<T>();
  }

  std::byte* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  void Grow(size_t bytes) {
    data_.reset();  // first: never hold both
    data_.reset(static_cast<std::byte*>(AllocateLarge(bytes)));
    bytes_ = bytes;
  }

  std::unique_ptr<std::byte, LargeDeleter> data_;
  size_t bytes_ = 0;
};

}  // namespace pergola::kernels::cpu
