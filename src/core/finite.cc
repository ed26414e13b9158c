#include "core/finite.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace pergola {

bool AllFinite(std::span<const float> row) {
  // In lanes of their own, so that no value waits for the one before it. A difference of a value to
  // itself is 0 unless it is not finite.
  constexpr size_t kLanes = 16;
  float differences[kLanes] = {};
  size_t at = 0;
  for (; at + kLanes <= row.size(); at += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      differences[lane] += row[at + lane] - row[at + lane];
    }
  }
  for (; at < row.size(); ++at) differences[0] += row[at] - row[at];
  return std::all_of(std::begin(differences), std::end(differences),
                     [](float difference) { return difference == 0; });
}

}  // namespace pergola
