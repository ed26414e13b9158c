#include "core/table_memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "core/check.h"

namespace pergola {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kLineBytes = 64;

}  // namespace

void* AllocateTable(size_t bytes) {
  const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kLineBytes;
  const size_t rounded = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  void* memory = nullptr;
  const int error = ::posix_memalign(&memory, alignment, rounded > 0 ? rounded : kLineBytes);
  PERGOLA_CHECK(error == 0);
  // A hint: a system without huge pages refuses it, and nothing is lost.
  if (alignment == kHugePageBytes) {
    static_cast<void>(::madvise(memory, rounded, MADV_HUGEPAGE));
  }
  return memory;
}

void FreeTable(void* memory) { std::free(memory); }

}  // namespace pergola
