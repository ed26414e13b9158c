// The avx2-vnni kernels: exports kAvx2VnniTable and nothing else.
#define PERGOLA_VNNI
#include "kernels/cpu/vec/avx2-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kAvx2VnniTable = MakeTable();

}  // namespace pergola::kernels::cpu
