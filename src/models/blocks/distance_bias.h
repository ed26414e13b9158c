// T5's relative attention bias, as MPNet uses it: buckets of the distance, exact when near and
// logarithmic when far (Raffel et al. 2020, section 2.1).
#pragma once

#include <cstdint>
#include <vector>

namespace pergola::models {

// Distances beyond this share the last bucket.
inline constexpr int64_t kMaxBucketDistance = 128;

// Bucket of key - query = `distance` among `buckets`, half of them for keys after the query.
int64_t RelativeBucket(int64_t distance, int64_t buckets);

// From per-bucket values [buckets, H] to per-distance values [H, 2 * kMaxBucketDistance + 1], as
// AttentionOptions::distance_bias wants them.
std::vector<float> ExpandDistanceBias(const std::vector<float>& by_bucket, int64_t buckets,
                                      int64_t num_heads);

}  // namespace pergola::models
