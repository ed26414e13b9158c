// Disentangled attention's positions, as DeBERTa has them (He et al. 2020, 2021): a table of
// vectors by logarithmic buckets of the distance, projected like queries and keys. The projections
// of a layer depend on the weights alone and are made at load.
//
//   const DistanceRows rows = FindDistanceRows(parameters, max_positions);
//   PERGOLA_ASSIGN_OR_RETURN(LinearLayer keys, ProjectDistances(reader, ops, "layer.0.key", key,
//                                                               table, rows.table_rows, heads));
//   kernels::DistanceVectors vectors{.rows = rows.by_distance, .keys = keys.weight.get()};
//
// Letters: D width, H heads, W head width, B rows of the table, R vectors that distances use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "models/weight_reader.h"

namespace pergola::models {

struct DisentangledParameters {
  int64_t buckets = 0;       // on each side of 0; 0: every distance has a row of its own
  int64_t max_distance = 0;  // with buckets: where the last one is reached
  bool keys = false;         // queries meet projected positions (c2p)
  bool queries = false;      // keys meet projected positions (p2c)
  bool shared = false;       // projected by the layer's own query and key matrices
  bool normed = false;       // the table is layer-normalised

  int64_t span() const { return buckets > 0 ? buckets : max_distance; }
  int64_t table_rows() const { return 2 * span(); }  // B
};

// Bucket of `distance`, query - key: the distance itself up to buckets / 2, logarithmic beyond,
// odd. `buckets` >= 4, `max_distance` > buckets / 2 + 1.
int64_t LogBucket(int64_t distance, int64_t buckets, int64_t max_distance);

// Which rows of the table the distances of sequences of at most P tokens use.
struct DistanceRows {
  std::vector<int32_t> table_rows;   // [R], in the order of key - query
  std::vector<int32_t> by_distance;  // [2P - 1]: kernels::DistanceVectors::rows
};
DistanceRows FindDistanceRows(const DisentangledParameters& parameters, int64_t max_positions);

// One layer's projected positions of one kind: f32 [H * R, W], R rounded up to what the kernel
// wants.
//   table       f32 [B, D]            read
//   projection  [H * W, D] with bias  applied to the rows that are used
// Errors name `name`, the projection.
Result<LinearLayer> ProjectDistances(WeightReader& reader, kernels::Ops& ops,
                                     const std::string& name, const LinearLayer& projection,
                                     ConstF32Matrix table, const std::vector<int32_t>& table_rows,
                                     int64_t num_heads);

}  // namespace pergola::models
