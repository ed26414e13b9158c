// Memory for large tables that are read at random places: vocabularies, hash tables, tries.
//
//   TableVector<Slot> slots(1 << 20);
//
// From 2 MiB on the system is asked for huge pages, so that a look-up does not also miss the TLB
// and filling the table costs one page fault for 2 MiB. Where the system has none to give, they are
// ordinary pages. Not for small or short-lived memory.
#pragma once

#include <cstddef>
#include <vector>

namespace pergola {

// Never null (running out of memory ends the process); aligned to at least 64 bytes.
void* AllocateTable(size_t bytes);
void FreeTable(void* memory);

template <typename T>
struct TableAllocator {
  using value_type = T;

  TableAllocator() = default;
  template <typename U>
  TableAllocator(const TableAllocator<U>& /*other*/) {}  // NOLINT: as allocators convert

  T* allocate(size_t count) { return static_cast<T*>(AllocateTable(count * sizeof(T))); }
  void deallocate(T* memory, size_t /*count*/) { FreeTable(memory); }
  friend bool operator==(const TableAllocator&, const TableAllocator&) { return true; }
};

template <typename T>
using TableVector = std::vector<T, TableAllocator<T>>;

}  // namespace pergola
