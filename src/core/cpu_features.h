// What the processor under this process can do, and how much of it the process may use.
//
//   if (CpuHas("avx2") && CpuHas("fma")) ...
//   ThreadPool pool(UsableCores());
//
// Detected once, from the processor itself (never from how the binary was compiled); a feature
// counts only when the operating system saves its registers too. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pergola {

// Names that CpuHas knows on this architecture, whether present or not.
std::vector<std::string_view> KnownCpuFeatures();

// True when the processor has the feature and the operating system lets processes use it. Names are
// those of KnownCpuFeatures(): "avx2", "fma", "f16c", "avx512f", ... An unknown name is false.
bool CpuHas(std::string_view feature);

// "AMD EPYC 9004", or the architecture's name when the processor doesn't tell.
const std::string& CpuModelName();

// Cores that this process may keep busy: the scheduler's affinity mask, cut down to the CPU quota
// of its control group (rounded up), at least 1.
int UsableCores();

// Tells the core that the thread is spinning.
void CpuRelax();

// Round to nearest even, subnormals kept, while it lives; then what was set before. Results depend
// on these two settings, so every thread that computes holds one (docs/numerics.md, rule 8).
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment();
  ~DefaultFloatEnvironment();
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace pergola
