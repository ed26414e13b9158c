// The one list of kernel sets, best first; which of them this machine can run, and which is chosen.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto ops, kernels::MakeOps({.num_threads = 2}));
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  // Name of a kernel set ("avx2", "scalar", "reference"); empty = PERGOLA_FORCE_ISA, else the best
  // of those that are usable and verified.
  std::string isa = {};
};

struct KernelSet {
  std::string_view name;  // static
  bool usable = false;
  std::string declined;  // why not usable: "needs avx512f"
  // Whether this project's checks have run its conformance suites anywhere, be it emulated. One
  // that isn't runs when forced by name only.
  bool verified = false;
  // Its functions, static; null for the reference. For this module alone.
  const cpu::KernelTable* table = nullptr;
};

// Every set in the order of preference, with what this CPU says of it. For `doctor` and tests.
std::vector<KernelSet> ListKernelSets();

// The functions of the first usable and verified one that is no reference: for work outside of any
// Ops whose bits are the same on every set. For this module alone.
const cpu::KernelTable& BestKernelTable();

// Whether this CPU runs those functions of a table that stand on products of polynomials: not every
// one that is good for the rest has them. For this module alone.
bool HasFoldedChecksum(const cpu::KernelTable& table);

// The set called `wanted`, or for an empty name the first that is usable and verified: what MakeOps
// takes of ListKernelSets(). INVALID_ARGUMENT listing the known names for an unknown one, or where
// none can be chosen; FAILED_PRECONDITION with the reason for one that this CPU cannot run.
// `source` begins the message: who named it. The result points into `sets`.
Result<const KernelSet*> PickKernelSet(std::span<const KernelSet> sets, std::string_view wanted,
                                       std::string_view source);

struct WantedKernelSet {
  std::string name;         // empty: the best
  std::string_view source;  // who named it, for messages
};

// `option`, or if that is empty what PERGOLA_FORCE_ISA says now.
WantedKernelSet FindWantedKernelSet(const std::string& option);

// Errors of PickKernelSet; INVALID_ARGUMENT for a negative number of threads. PERGOLA_FORCE_ISA is
// read here, once per call.
Result<std::unique_ptr<Ops>> MakeOps(const OpsOptions& options);

}  // namespace pergola::kernels
