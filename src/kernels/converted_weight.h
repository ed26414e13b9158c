// A checkpoint's matrix in the type that it is to be computed in.
//
//   const ConvertedWeight weight(view, WeightType::kInt8);
//   Pack(weight.view());
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor.h"
#include "kernels/weight_type.h"

namespace pergola::kernels {

// Immutable. Where nothing has to be converted it is the view it was made of, whose memory must
// outlive it; otherwise it owns its rows.
class ConvertedWeight {
 public:
  // `weight` has passed CheckLinearWeight.
  ConvertedWeight(TensorView weight, WeightType type);
  ConvertedWeight(ConvertedWeight&&) = default;
  ConvertedWeight& operator=(ConvertedWeight&&) = delete;

  const TensorView& view() const { return view_; }
  size_t owned_bytes() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;  // perhaps of bytes_
};

}  // namespace pergola::kernels
