// DistanceVectors with random values, prepared for several Ops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "kernels/ops.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels::testing {

// Vectors for distances up to `reach`: one per distance up to reach / 2, further away one per three
// distances, as logarithmic buckets do.
class RandomDistanceVectors {
 public:
  RandomDistanceVectors(Random& random, int64_t heads, int64_t width, int64_t reach)
      : heads_(heads), width_(width) {
    const auto bucket = [&](int64_t distance) {
      const int64_t far = std::max<int64_t>(0, std::abs(distance) - reach / 2);
      return distance < 0 ? distance + far - far / 3 : distance - far + far / 3;
    };
    for (int64_t distance = -reach; distance <= reach; ++distance) {
      rows_.push_back(static_cast<int32_t>(bucket(distance) - bucket(-reach)));
    }
    const int64_t multiple = DistanceVectors::kRowMultiple;
    rows_per_head_ = (rows_.back() + multiple) / multiple * multiple;
    keys_ = random.Values(heads * rows_per_head_ * width);
    queries_ = random.Values(heads * rows_per_head_ * width);
  }

  // Views of this object, which must outlive it; valid for `ops` alone.
  struct Prepared {
    std::unique_ptr<LinearWeight> keys, queries;
    DistanceVectors vectors;
  };
  Prepared For(Ops& ops, bool with_keys = true, bool with_queries = true) const {
    Prepared prepared;
    prepared.vectors.rows = rows_;
    if (with_keys) prepared.keys = Prepare(ops, keys_);
    if (with_queries) prepared.queries = Prepare(ops, queries_);
    prepared.vectors.keys = prepared.keys.get();
    prepared.vectors.queries = prepared.queries.get();
    return prepared;
  }

  // Largest norm of a vector.
  double norm() const {
    double largest = 0;
    for (const auto* values : {&keys_, &queries_}) {
      for (size_t begin = 0; begin < values->size(); begin += static_cast<size_t>(width_)) {
        double sum = 0;
        for (size_t i = begin; i < begin + static_cast<size_t>(width_); ++i) {
          sum += static_cast<double>((*values)[i]) * (*values)[i];
        }
        largest = std::max(largest, std::sqrt(sum));
      }
    }
    return largest;
  }

 private:
  std::unique_ptr<LinearWeight> Prepare(Ops& ops, const std::vector<float>& values) const {
    TensorView view;
    view.data = reinterpret_cast<const std::byte*>(values.data());
    view.dtype = DType::kF32;
    view.shape = Shape{heads_ * rows_per_head_, width_};
    return ops.PrepareLinear(view, {.activations = ActivationPrecision::kF32}).value();
  }

  int64_t heads_, width_, rows_per_head_ = 0;
  std::vector<int32_t> rows_;
  std::vector<float> keys_, queries_;
};

}  // namespace pergola::kernels::testing
