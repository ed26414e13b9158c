#include "cli/quantise_search.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace pergola::cli {
namespace {

using engine::QuantisationPlan;

// Units by what quantising each of them alone costs, the dearest first; ties by name.
Result<std::vector<std::string>> OrderByCost(const QuantiseSearch& search) {
  std::vector<std::pair<double, std::string>> costs;
  for (const auto& [unit, type] : search.start) {
    PERGOLA_ASSIGN_OR_RETURN(const Closeness alone, search.measure({{unit, type}}));
    costs.emplace_back(alone.mean, unit);
  }
  std::sort(costs.begin(), costs.end());
  std::vector<std::string> units;
  for (auto& [mean, unit] : costs) units.push_back(std::move(unit));
  return units;
}

QuantisationPlan Raised(QuantisationPlan plan, const std::vector<std::string>& units, size_t count,
                        DType type) {
  for (size_t i = 0; i < count; ++i) plan[units[i]] = type;
  return plan;
}

}  // namespace

Result<QuantisationPlan> ChooseTypes(const QuantiseSearch& search) {
  QuantisationPlan plan = search.start;
  PERGOLA_ASSIGN_OR_RETURN(Closeness reached, search.measure(plan));
  if (reached.min >= search.min_cosine) return plan;
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<std::string> units, OrderByCost(search));
  for (const DType type : search.larger) {
    PERGOLA_ASSIGN_OR_RETURN(reached, search.measure(Raised(plan, units, units.size(), type)));
    if (reached.min < search.min_cosine) {
      plan = Raised(plan, units, units.size(), type);
      continue;
    }
    size_t fewest = 0, enough = units.size();  // `fewest` is too few
    while (enough - fewest > 1) {
      const size_t middle = fewest + (enough - fewest) / 2;
      PERGOLA_ASSIGN_OR_RETURN(const Closeness closeness,
                               search.measure(Raised(plan, units, middle, type)));
      (closeness.min >= search.min_cosine ? enough : fewest) = middle;
    }
    return Raised(plan, units, enough, type);
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "the smallest cosine with the original is %.7f at best, wanted at least %.7f",
                reached.min, search.min_cosine);
  return OutOfRangeError(text);
}

}  // namespace pergola::cli
