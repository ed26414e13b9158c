#include "models/blocks/distance_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "models/blocks/rope_table.h"

namespace pergola::models {

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

}  // namespace pergola::models
