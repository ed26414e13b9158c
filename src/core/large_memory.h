// Large memory that lives long: vocabularies, hash tables, packed weights, activations.
//
//   TableVector<Slot> slots(1 << 20);
//   std::shared_ptr<std::byte> panels = chunked_memory.Allocate(bytes);
//
// From 2 MiB on the system is asked for huge pages, so that a read does not also miss the TLB and
// filling the memory costs one page fault for 2 MiB. Where the system has none to give, they are
// ordinary pages. Not for small or short-lived memory.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace pergola {

// Never null (running out of memory ends the process); aligned to at least 64 bytes, uninitialised.
void* AllocateLarge(size_t bytes);
void FreeLarge(void* memory);

struct LargeDeleter {
  void operator()(void* memory) const { FreeLarge(memory); }
};

// Many pieces that live about as long as each other, cut from chunks: so pieces below 2 MiB lie in
// huge pages too. Chunks grow with what has been asked for; a chunk is freed with its last piece,
// which may outlive this. Thread-safe.
class ChunkedMemory {
 public:
  // `bytes` of a chunk, aligned to 64 bytes, uninitialised.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

 private:
  std::mutex mutex_;
  std::shared_ptr<std::byte> chunk_;
  size_t chunk_bytes_ = 0;
  size_t used_ = 0;       // of the chunk
  size_t allocated_ = 0;  // of all chunks
};

template <typename T>
struct TableAllocator {
  using value_type = T;

  TableAllocator() = default;
  template <typename U>
  TableAllocator(const TableAllocator<U>& /*other*/) {}  // NOLINT: as allocators convert

  T* allocate(size_t count) { return static_cast<T*>(AllocateLarge(count * sizeof(T))); }
  void deallocate(T* memory, size_t /*count*/) { FreeLarge(memory); }
  friend bool operator==(const TableAllocator&, const TableAllocator&) { return true; }
};

template <typename T>
using TableVector = std::vector<T, TableAllocator<T>>;

}  // namespace pergola
