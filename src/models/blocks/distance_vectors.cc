#include "models/blocks/distance_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "models/blocks/rope_table.h"

namespace pergola::models {

int64_t LogBucket(int64_t distance, int64_t buckets, int64_t max_distance) {
  const int64_t exact = buckets / 2;
  const int64_t reach = std::abs(distance);
  if (reach <= exact) return distance;
  // In f32 as the reference does, so that distances on a boundary fall on the same side.
  const auto log_of = [&](int64_t numerator) {
    const float ratio = static_cast<float>(numerator) / static_cast<float>(exact);
    return static_cast<float>(PortableLog(static_cast<double>(ratio)));
  };
  const float position = log_of(reach) / log_of(max_distance - 1) * static_cast<float>(exact - 1);
  const auto bucket = static_cast<int64_t>(std::ceil(position)) + exact;
  return distance < 0 ? -bucket : bucket;
}

DistanceRows FindDistanceRows(const DisentangledParameters& parameters, int64_t max_positions) {
  const int64_t span = parameters.span();
  DistanceRows rows;
  for (int64_t distance = 1 - max_positions; distance < max_positions; ++distance) {
    const int64_t bucket = parameters.buckets > 0
                               ? LogBucket(-distance, parameters.buckets, parameters.max_distance)
                               : -distance;
    const auto row = static_cast<int32_t>(std::clamp<int64_t>(bucket + span, 0, 2 * span - 1));
    if (rows.table_rows.empty() || rows.table_rows.back() != row) rows.table_rows.push_back(row);
    rows.by_distance.push_back(static_cast<int32_t>(rows.table_rows.size()) - 1);
  }
  return rows;
}

Result<LinearLayer> ProjectDistances(WeightReader& reader, kernels::Ops& ops,
                                     const std::string& name, const LinearLayer& projection,
                                     ConstF32Matrix table, const std::vector<int32_t>& table_rows,
                                     int64_t num_heads) {
  const int64_t outputs = projection.weight->outputs();
  const int64_t width = outputs / num_heads;
  std::vector<float> projected(static_cast<size_t>(table.rows * outputs));
  const F32Matrix by_row(projected.data(), table.rows, outputs);
  ops.Linear(table, *projection.weight, projection.bias_data(), kernels::Epilogue::kNone, by_row);

  const auto used = static_cast<int64_t>(table_rows.size());
  const int64_t multiple = kernels::DistanceVectors::kRowMultiple;
  const int64_t rows_per_head = (used + multiple - 1) / multiple * multiple;
  std::vector<float> by_head(static_cast<size_t>(num_heads * rows_per_head * width));
  for (int64_t head = 0; head < num_heads; ++head) {
    for (int64_t index = 0; index < used; ++index) {
      const float* from = by_row.row(table_rows[static_cast<size_t>(index)]) + head * width;
      std::copy_n(from, width, by_head.data() + (head * rows_per_head + index) * width);
    }
  }
  return reader.LinearOfValues(name, by_head, num_heads * rows_per_head, width);
}

}  // namespace pergola::models
