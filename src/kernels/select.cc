#include "kernels/select.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "core/cpu_features.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/isa/tables.h"
#include "kernels/reference_ops.h"

namespace pergola::kernels {
namespace {

using cpu::NamedTable;

std::unique_ptr<Ops> Make(const NamedTable& entry, int num_threads) {
  if (entry.table == nullptr) return MakeReferenceOps(num_threads);
  return cpu::MakeCpuOps({entry.name, entry.table}, num_threads);
}

// "needs avx512f avx512bw": those of `features` that this CPU lacks; empty when it has all.
std::string Declined(std::string_view features) {
  std::string missing;
  while (!features.empty()) {
    const std::string_view feature = features.substr(0, features.find(' '));
    features.remove_prefix(std::min(features.size(), feature.size() + 1));
    if (!CpuHas(feature)) missing.append(" ").append(feature);
  }
  return missing.empty() ? "" : "needs" + missing;
}

std::string KnownNames() {
  std::string names;
  for (const NamedTable& entry : cpu::kTables) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace

std::vector<KernelSet> ListKernelSets() {
  std::vector<KernelSet> sets;
  for (const NamedTable& entry : cpu::kTables) {
    std::string declined = Declined(entry.needs);
    const bool usable = declined.empty();
    sets.push_back({std::string(entry.name), usable, std::move(declined), entry.table});
  }
  return sets;
}

Result<std::unique_ptr<Ops>> MakeOps(const OpsOptions& options) {
  if (options.num_threads < 0) {
    return InvalidArgumentError("number of threads is " + std::to_string(options.num_threads) +
                                ", must not be negative");
  }
  const int num_threads = options.num_threads == 0 ? UsableCores() : options.num_threads;
  std::string wanted = options.isa;
  std::string source = "kernel set";
  if (wanted.empty()) {
    const char* forced = std::getenv("PERGOLA_FORCE_ISA");
    if (forced != nullptr) wanted = forced;
    source = "PERGOLA_FORCE_ISA";
  }
  for (const NamedTable& entry : cpu::kTables) {
    if (!wanted.empty() && entry.name != wanted) continue;
    const std::string declined = Declined(entry.needs);
    if (declined.empty()) return Make(entry, num_threads);
    if (!wanted.empty()) {
      return FailedPreconditionError(source + " '" + wanted + "' can't run here: " + declined);
    }
  }
  return InvalidArgumentError(source + " '" + wanted + "' is unknown; known are " + KnownNames());
}

}  // namespace pergola::kernels
