// The neon-i8mm kernels: exports kNeonI8mmTable and nothing else.
#include "kernels/cpu/vec/neon-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kNeonI8mmTable = MakeTable();

}  // namespace pergola::kernels::cpu
