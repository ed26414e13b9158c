// What this machine can do at most, measured: the denominators of every share of the roofline.
//
//   for (const kernels::MachinePeak& peak : kernels::MeasureMachinePeaks({.num_threads = 2})) ...
//
// Each figure is the best of several short rounds, so a neighbour's burst does not lower it; on a
// machine that is busy throughout, it is too low all the same.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::kernels {

struct MachinePeak {
  std::string name;        // "f32_fma", "i16_dot", "i8_dot", "bf16_dot", "memory_read"
  std::string unit;        // "GFLOP/s", "Gop/s" (a multiply-add is two), "GB/s"
  std::string kernel_set;  // whose instructions these are
  double one_thread = 0;   // what a thread reaches alone
  double all_threads = 0;  // sum over threads that run together
};

struct MachinePeakOptions {
  int num_threads = 0;  // 0: one per usable core
  // Of one round of one measurement; there are some 40 of them.
  std::chrono::milliseconds round = std::chrono::milliseconds(30);
  // The best kernel set there may be, as the machine of somebody else would have it; empty =
  // PERGOLA_FORCE_ISA, else the best that this CPU can run.
  std::string isa = {};
  int64_t memory_bytes = int64_t{256} << 20;  // read per thread: more than any cache holds
};

// The best kernel set that this CPU can run and that has the instruction; what none has is left
// out. Starts threads of its own; takes a second or two. Errors of PickKernelSet.
Result<std::vector<MachinePeak>> MeasureMachinePeaks(const MachinePeakOptions& options);

}  // namespace pergola::kernels
