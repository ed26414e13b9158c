// The avx2 kernels: exports kAvx2Table and nothing else.
#include "kernels/cpu/vec/avx2-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kAvx2Table = MakeTable();

}  // namespace pergola::kernels::cpu
