// Which parts of a model are quantised less than the rest, so that its vectors stay near the
// original's. Knows no files and no models: measuring is the caller's.
//
// Greedy: every unit's cost is measured with that unit alone quantised. If all of them together are
// too far away, the dearest units get the next larger type, as few as suffice (found by bisection);
// if all of them don't suffice, the search goes on from there with the type after that.
// Deterministic where `measure` is; units + log2(units) measurements per larger type.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "engine/quantiser.h"
#include "pergola/status.h"

namespace pergola::cli {

// Cosines of a model's vectors with the original's, over some texts.
struct Closeness {
  double min = 1.0;
  double mean = 1.0;
};

struct QuantiseSearch {
  engine::QuantisationPlan start;
  std::vector<DType> larger;  // types for units that cost most, ascending
  double min_cosine = -1.0;   // what the smallest cosine may not be below
  std::function<Result<Closeness>(const engine::QuantisationPlan&)> measure;
};

// The plan that suffices. OUT_OF_RANGE naming the best closeness when none does; errors of
// `measure`.
Result<engine::QuantisationPlan> ChooseTypes(const QuantiseSearch& search);

}  // namespace pergola::cli
