// How much memory this process uses and the machine has, in bytes.
#pragma once

#include <cstdint>

namespace pergola {

struct MemoryUse {
  int64_t resident_bytes = 0;       // now, mapped files that are in memory included
  int64_t peak_resident_bytes = 0;  // the most so far
  int64_t private_bytes = 0;        // resident and not backed by a file
  int64_t machine_bytes = 0;        // of the machine
  int64_t available_bytes = 0;      // what could be had without swapping
};

// Fields that the system does not tell are 0.
MemoryUse ReadMemoryUse();

// From now on blocks of 1 MiB and more go back to the system when they are freed. By itself glibc
// soon takes them from its heaps, where bursts of them leave pages behind that are never given
// back. Does nothing with another C library. Call once, early.
void ReturnLargeBlocks();

}  // namespace pergola
