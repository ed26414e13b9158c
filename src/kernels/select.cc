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

std::string Names(std::span<const KernelSet> sets) {
  std::string names;
  for (const KernelSet& set : sets) {
    if (!names.empty()) names += ", ";
    names += set.name;
  }
  return names;
}

}  // namespace

std::vector<KernelSet> ListKernelSets() {
  std::vector<KernelSet> sets;
  for (const NamedTable& entry : cpu::kTables) {
    KernelSet set;
    set.name = entry.name;
    set.declined = Declined(entry.needs);
    set.usable = set.declined.empty();
    set.verified = entry.verified == cpu::Verified::kYes;
    set.table = entry.table;
    sets.push_back(std::move(set));
  }
  return sets;
}

Result<const KernelSet*> PickKernelSet(std::span<const KernelSet> sets, std::string_view wanted,
                                       std::string_view source) {
  for (const KernelSet& set : sets) {
    if (wanted.empty()) {
      if (set.usable && set.verified) return &set;
    } else if (set.name == wanted) {
      if (set.usable) return &set;
      return FailedPreconditionError(std::string(source) + " '" + std::string(set.name) +
                                     "' can't run here: " + set.declined);
    }
  }
  return InvalidArgumentError(std::string(source) + " '" + std::string(wanted) +
                              "' is unknown; known are " + Names(sets));
}

const cpu::KernelTable& BestKernelTable() {
  static const cpu::KernelTable* const best = [] {
    const cpu::KernelTable* found = &cpu::kScalarTable;
    for (const KernelSet& set : ListKernelSets()) {
      if (!set.usable || !set.verified || set.table == nullptr) continue;
      found = set.table;
      break;
    }
    return found;
  }();
  return *best;
}

bool HasFoldedChecksum(const cpu::KernelTable& table) {
  static const bool multiplies_polynomials = CpuHas("vpclmulqdq");
  return table.folded_crc32c != nullptr && multiplies_polynomials;
}

WantedKernelSet FindWantedKernelSet(const std::string& option) {
  if (!option.empty()) return {option, "kernel set"};
  const char* forced = std::getenv("PERGOLA_FORCE_ISA");
  return {forced != nullptr ? forced : "", "PERGOLA_FORCE_ISA"};
}

Result<std::unique_ptr<Ops>> MakeOps(const OpsOptions& options) {
  if (options.num_threads < 0) {
    return InvalidArgumentError("number of threads is " + std::to_string(options.num_threads) +
                                ", must not be negative");
  }
  const int num_threads = options.num_threads == 0 ? UsableCores() : options.num_threads;
  const WantedKernelSet wanted = FindWantedKernelSet(options.isa);
  const std::vector<KernelSet> sets = ListKernelSets();
  PERGOLA_ASSIGN_OR_RETURN(const KernelSet* set, PickKernelSet(sets, wanted.name, wanted.source));
  if (set->table == nullptr) return MakeReferenceOps(num_threads);
  return cpu::MakeCpuOps({set->name, set->table}, num_threads);
}

}  // namespace pergola::kernels
