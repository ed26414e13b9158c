// The avx512-vnni kernels: exports kAvx512VnniTable and nothing else.
#define PERGOLA_VNNI
#include "kernels/cpu/vec/avx512-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kAvx512VnniTable = MakeTable();

}  // namespace pergola::kernels::cpu
