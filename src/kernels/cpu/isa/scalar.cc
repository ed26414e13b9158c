// The scalar kernels: exports kScalarTable and nothing else.
#include "kernels/cpu/vec/scalar-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kScalarTable = MakeTable();

}  // namespace pergola::kernels::cpu
