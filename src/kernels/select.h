// The one list of kernel sets, best first; which of them this machine can run, and which is chosen.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto ops, kernels::MakeOps({.num_threads = 2}));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "pergola/status.h"

namespace pergola::kernels {

namespace cpu {
struct KernelTable;
}  // namespace cpu

struct OpsOptions {
  // Threads of the pool, the caller's own included; 0 = one per usable core.
  int num_threads = 0;
  // Name of a kernel set ("avx2", "scalar", "reference"); empty = PERGOLA_FORCE_ISA, else the best.
  std::string isa = {};
};

struct KernelSet {
  std::string name;
  bool usable = false;
  std::string declined;  // why not usable: "needs avx512f"
  // Its functions, static; null for the reference. For this module alone.
  const cpu::KernelTable* table = nullptr;
};

// Every set in the order of preference, with what this CPU says of it. For `doctor` and tests.
std::vector<KernelSet> ListKernelSets();

// INVALID_ARGUMENT listing the known names for an unknown one; FAILED_PRECONDITION with the reason
// for one that this CPU cannot run. PERGOLA_FORCE_ISA is read here, once per call.
Result<std::unique_ptr<Ops>> MakeOps(const OpsOptions& options);

}  // namespace pergola::kernels
