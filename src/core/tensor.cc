#include "core/tensor.h"

namespace pergola {

std::string Shape::ToString() const {
  std::string text = "[";
  for (int axis = 0; axis < rank; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(dims[axis]);
  }
  return text + "]";
}

}  // namespace pergola
