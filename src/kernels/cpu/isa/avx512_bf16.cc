// The avx512-bf16 kernels: exports kAvx512Bf16Table and nothing else.
#define PERGOLA_VNNI
#define PERGOLA_BF16
#include "kernels/cpu/vec/avx512-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kAvx512Bf16Table = MakeTable();

}  // namespace pergola::kernels::cpu
