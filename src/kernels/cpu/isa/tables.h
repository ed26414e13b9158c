// The kernel tables of the architecture that this is built for, and what each needs of the CPU.
#pragma once

#include <string_view>

#include "kernels/cpu/kernel_table.h"

namespace pergola::kernels::cpu {

// Whether the conformance suites have run with a table: on hardware, under an emulator or through
// portable intrinsics. .ci/run counts each table's tests and fails where this says otherwise.
enum class Verified { kNo, kYes };

struct NamedTable {
  std::string_view name;
  Verified verified;         // kNo: runs when forced, is never chosen
  std::string_view needs;    // CPU features as CpuHas knows them, separated by one space
  const KernelTable* table;  // null: the reference
};

#if defined(PERGOLA_SIMDE)
// What stands on AVX2 is made of it.
#define PERGOLA_NEEDS(features) "avx2 fma f16c"
#else
#define PERGOLA_NEEDS(features) "avx2 fma f16c " features
#endif

// Best first, plain last.
inline constexpr NamedTable kTables[] = {
#if defined(__x86_64__)
    {"avx512-bf16", Verified::kYes,
     PERGOLA_NEEDS("avx512f avx512bw avx512dq avx512vl avx512vnni avx512bf16"), &kAvx512Bf16Table},
    {"avx512-vnni", Verified::kYes, PERGOLA_NEEDS("avx512f avx512bw avx512dq avx512vl avx512vnni"),
     &kAvx512VnniTable},
    {"avx512", Verified::kYes, PERGOLA_NEEDS("avx512f avx512bw avx512dq avx512vl"), &kAvx512Table},
    {"avx2-vnni", Verified::kYes, PERGOLA_NEEDS("avxvnni"), &kAvx2VnniTable},
    {"avx2", Verified::kYes, "avx2 fma f16c", &kAvx2Table},
    {"ssse3", Verified::kYes, "ssse3", &kSsse3Table},
#elif defined(__aarch64__)
    {"neon-i8mm", Verified::kYes, "asimd asimddp i8mm", &kNeonI8mmTable},
    {"neon-dotprod", Verified::kYes, "asimd asimddp", &kNeonDotprodTable},
    {"neon", Verified::kYes, "asimd", &kNeonTable},
#endif
    {"scalar", Verified::kYes, "", &kScalarTable},
    {"reference", Verified::kYes, "", nullptr},
};
#undef PERGOLA_NEEDS

}  // namespace pergola::kernels::cpu
