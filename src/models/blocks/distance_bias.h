// Biases of attention by distance alone, as AttentionOptions::distance_bias wants them.
//
// T5's, as MPNet uses it: buckets of the distance, exact when near and logarithmic when far (Raffel
// et al. 2020, section 2.1). ALiBi, as JinaBERT uses it: minus the distance times a slope of the
// head (Press et al. 2022), to both sides.
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

// [H, 2 * reach + 1]. Slopes: 2^(-8 i / n), i from 1, for a power of two n of heads; for another
// number those of the power below, then the first, third, ... of the power above.
std::vector<float> MakeAlibi(int64_t num_heads, int64_t reach);

}  // namespace pergola::models
