// One embedding of a text that was too long for the model, from those of its parts.
//
//   const std::vector<float> row = MeanOfParts({{a, 254}, {b, 31}}, /*unit_length=*/true);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pergola::service {

struct PartRow {
  std::span<const float> row;  // as the pipeline gives it, all of equal size
  int64_t tokens = 0;          // its weight, at least 1
};

// The mean of the parts' rows weighted by their tokens, summed in double in order, so that the same
// parts give the same bits. `unit_length`: each row is first divided by its L2 norm (a zero row
// stays), for models whose embeddings are. One part: its row as it is. Not empty. The mean itself
// is not of unit length: FormatFloats() sees to that. Pure.
std::vector<float> MeanOfParts(std::span<const PartRow> parts, bool unit_length);

}  // namespace pergola::service
