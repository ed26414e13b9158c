// The operations of ops.h on a CPU, for any instruction set that gives a KernelTable.
//
//   std::unique_ptr<Ops> ops = MakeCpuOps({"avx2", &kAvx2Table}, 2);
//
// This class plans: it cuts an operation into items for the thread pool and owns the scratch
// memory; the table computes. Plans look at T and at the number of threads, results never do.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"

namespace pergola::kernels::cpu {

struct InstructionSet {
  std::string_view name;     // static
  const KernelTable* table;  // static
};

// `num_threads` >= 1. The caller has checked that the CPU can run the table.
std::unique_ptr<Ops> MakeCpuOps(const InstructionSet& isa, int num_threads);

}  // namespace pergola::kernels::cpu
