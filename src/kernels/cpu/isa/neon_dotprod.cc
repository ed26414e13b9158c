// The neon-dotprod kernels: exports kNeonDotprodTable and nothing else.
#include "kernels/cpu/vec/neon-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kNeonDotprodTable = MakeTable();

}  // namespace pergola::kernels::cpu
