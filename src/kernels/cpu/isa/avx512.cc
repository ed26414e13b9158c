// The avx512 kernels: exports kAvx512Table and nothing else.
#include "kernels/cpu/vec/avx512-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kAvx512Table = MakeTable();

}  // namespace pergola::kernels::cpu
