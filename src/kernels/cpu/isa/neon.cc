// The neon kernels: exports kNeonTable and nothing else.
#include "kernels/cpu/vec/neon-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kNeonTable = MakeTable();

}  // namespace pergola::kernels::cpu
