#include "models/blocks/distance_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "models/blocks/rope_table.h"

namespace pergola::models {
namespace {

// Slopes of `count` heads, a power of two.
std::vector<float> PowerSlopes(int64_t count) {
  std::vector<float> slopes;
  const double log_two = PortableLog(2.0);
  for (int64_t head = 1; head <= count; ++head) {
    const double exponent = -8.0 * static_cast<double>(head) / static_cast<double>(count);
    slopes.push_back(static_cast<float>(PortableExp(exponent * log_two)));
  }
  return slopes;
}

}  // namespace

int64_t RelativeBucket(int64_t distance, int64_t buckets) {
  const int64_t half = buckets / 2;
  const int64_t offset = distance > 0 ? half : 0;
  const int64_t reach = std::abs(distance);
  const int64_t exact = half / 2;
  if (reach < exact) return offset + reach;
  // In f32 as the reference does, so that distances on a boundary fall on the same side.
  const auto log_ratio = static_cast<float>(
      PortableLog(static_cast<double>(static_cast<float>(reach) / static_cast<float>(exact))));
  const auto log_range = static_cast<float>(
      PortableLog(static_cast<double>(kMaxBucketDistance) / static_cast<double>(exact)));
  const float position = log_ratio / log_range * static_cast<float>(half - exact);
  return offset + std::min(exact + static_cast<int64_t>(position), half - 1);
}

std::vector<float> ExpandDistanceBias(const std::vector<float>& by_bucket, int64_t buckets,
                                      int64_t num_heads) {
  const int64_t width = 2 * kMaxBucketDistance + 1;
  std::vector<float> bias(static_cast<size_t>(num_heads * width));
  for (int64_t distance = -kMaxBucketDistance; distance <= kMaxBucketDistance; ++distance) {
    const int64_t bucket = RelativeBucket(distance, buckets);
    for (int64_t head = 0; head < num_heads; ++head) {
      bias[head * width + distance + kMaxBucketDistance] = by_bucket[bucket * num_heads + head];
    }
  }
  return bias;
}

std::vector<float> MakeAlibi(int64_t num_heads, int64_t reach) {
  int64_t power = 1;
  while (power * 2 <= num_heads) power *= 2;
  std::vector<float> slopes = PowerSlopes(power);
  const std::vector<float> finer = PowerSlopes(2 * power);
  for (size_t i = 0; static_cast<int64_t>(slopes.size()) < num_heads; i += 2) {
    slopes.push_back(finer[i]);
  }
  const int64_t width = 2 * reach + 1;
  std::vector<float> bias(static_cast<size_t>(num_heads * width));
  for (int64_t head = 0; head < num_heads; ++head) {
    for (int64_t distance = -reach; distance <= reach; ++distance) {
      bias[static_cast<size_t>(head * width + distance + reach)] =
          -slopes[static_cast<size_t>(head)] * static_cast<float>(std::abs(distance));
    }
  }
  return bias;
}

}  // namespace pergola::models
