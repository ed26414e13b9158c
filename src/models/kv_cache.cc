#include "models/kv_cache.h"

#include <algorithm>

namespace pergola::models {

size_t KvCache::bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) {
    total += (layer.planes[0].capacity() + layer.planes[1].capacity()) * sizeof(float);
  }
  return total;
}

void KvCache::Stage(int64_t layer, ConstF32Matrix keys, ConstF32Matrix values) {
  Layer& held = layers_[static_cast<size_t>(layer)];
  held.rows = length_ + keys.rows;
  for (const int plane : {0, 1}) {
    const ConstF32Matrix& rows = plane == 0 ? keys : values;
    std::vector<float>& buffer = held.planes[plane];
    buffer.resize(static_cast<size_t>(length_ * key_width_));
    for (int64_t row = 0; row < rows.rows; ++row) {
      buffer.insert(buffer.end(), rows.row(row), rows.row(row) + key_width_);
    }
  }
}

}  // namespace pergola::models
