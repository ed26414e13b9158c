#include "core/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "core/check.h"

namespace pergola {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kLineBytes = 64;
constexpr size_t kLeastChunkBytes = size_t{64} << 10;
constexpr size_t kMostChunkBytes = size_t{32} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void* AllocateLarge(size_t bytes) {
  const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kLineBytes;
  const size_t rounded = RoundUp(bytes, kLineBytes);
  void* memory = nullptr;
  const int error = ::posix_memalign(&memory, alignment, rounded > 0 ? rounded : kLineBytes);
  PERGOLA_CHECK(error == 0);
  // A hint: a system without huge pages refuses it, and nothing is lost.
  if (alignment == kHugePageBytes) {
    static_cast<void>(::madvise(memory, rounded, MADV_HUGEPAGE));
  }
  return memory;
}

void FreeLarge(void* memory) { std::free(memory); }

std::shared_ptr<std::byte> ChunkedMemory::Allocate(size_t bytes) {
  const size_t rounded = RoundUp(bytes, kLineBytes);
  if (kAddressSanitizer) return {static_cast<std::byte*>(AllocateLarge(rounded)), LargeDeleter()};
  const std::lock_guard lock(mutex_);
  if (rounded > chunk_bytes_ - used_) {
    // As much again as there is: little is lost to small models, and large ones get few chunks.
    const size_t wanted =
        std::max(rounded, std::clamp(allocated_, kLeastChunkBytes, kMostChunkBytes));
    chunk_bytes_ = RoundUp(wanted, wanted < kHugePageBytes ? kLineBytes : kHugePageBytes);
    chunk_.reset(static_cast<std::byte*>(AllocateLarge(chunk_bytes_)), LargeDeleter());
    used_ = 0;
    allocated_ += chunk_bytes_;
  }
  std::byte* const piece = chunk_.get() + used_;
  used_ += rounded;
  return {chunk_, piece};
}

}  // namespace pergola
