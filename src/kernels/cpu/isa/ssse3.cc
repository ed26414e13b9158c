// The ssse3 kernels: exports kSsse3Table and nothing else.
#include "kernels/cpu/vec/scalar-inl.h"
// After the vectors.
#include "kernels/cpu/vec/table-inl.h"

namespace pergola::kernels::cpu {

constinit const KernelTable kSsse3Table = MakeTable();

}  // namespace pergola::kernels::cpu
