// The kernel tables of the architecture that this is built for, and what each needs of the CPU.
#pragma once

#include <string_view>

#include "kernels/cpu/kernel_table.h"

namespace pergola::kernels::cpu {

struct NamedTable {
  std::string_view name;
  std::string_view needs;    // CPU features as CpuHas knows them, separated by one space
  const KernelTable* table;  // null: the reference
};

// Best first, plain last.
inline constexpr NamedTable kTables[] = {
#if defined(__x86_64__)
    {"avx512-bf16", "avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512vnni avx512bf16",
     &kAvx512Bf16Table},
    {"avx512-vnni", "avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512vnni",
     &kAvx512VnniTable},
    {"avx512", "avx2 fma f16c avx512f avx512bw avx512dq avx512vl", &kAvx512Table},
    {"avx2", "avx2 fma f16c", &kAvx2Table},
#elif defined(__aarch64__)
    {"neon-dotprod", "asimd asimddp", &kNeonDotprodTable},
    {"neon", "asimd", &kNeonTable},
#endif
    {"scalar", "", &kScalarTable},
    {"reference", "", nullptr},
};

}  // namespace pergola::kernels::cpu
