#include "service/part_mean.h"

#include <cmath>

namespace pergola::service {

std::vector<float> MeanOfParts(std::span<const PartRow> parts, bool unit_length) {
  const std::span<const float> first = parts[0].row;
  if (parts.size() == 1) return {first.begin(), first.end()};
  std::vector<double> sum(first.size());
  double tokens = 0;
  for (const PartRow& part : parts) {
    double squares = 0;
    for (const float value : part.row) squares += double{value} * double{value};
    const double norm = unit_length && squares > 0 ? std::sqrt(squares) : 1.0;
    const auto weight = static_cast<double>(part.tokens);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{part.row[i]} / norm * weight;
    tokens += weight;
  }
  std::vector<float> mean(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / tokens);
  return mean;
}

}  // namespace pergola::service
