#include "formats/layout.h"

#include <algorithm>
#include <limits>

#include "formats/quoted.h"

namespace pergola::formats {
namespace {
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
}

std::string TensorAt(std::string_view name, uint64_t file_offset) {
  return "tensor " + Quoted(name) + " at offset " + std::to_string(file_offset);
}

Result<Shape> CheckedShape(std::span<const uint64_t> dims) {
  if (dims.size() > kMaxRank) {
    return UnimplementedError("rank " + std::to_string(dims.size()) + ", at most " +
                              std::to_string(kMaxRank) + " supported");
  }
  Shape shape;
  int64_t product = 1;
  for (const uint64_t dim : dims) {
    const std::string axis = "dimension " + std::to_string(shape.rank);
    if (dim == 0) return InvalidArgumentError(axis + " is 0");
    if (dim > static_cast<uint64_t>(kMax) || static_cast<int64_t>(dim) > kMax / product) {
      return InvalidArgumentError(axis + " of " + std::to_string(dim) +
                                  " makes more than 2^63 - 1 elements");
    }
    product *= static_cast<int64_t>(dim);
    shape.dims[shape.rank++] = static_cast<int64_t>(dim);
  }
  return shape;
}

Result<uint64_t> CheckedBytes(DType dtype, const Shape& shape) {
  const int64_t block = BlockElements(dtype);
  if (shape.cols() % block != 0) {
    return InvalidArgumentError("rows of " + std::to_string(shape.cols()) +
                                " elements are not whole " + std::string(DTypeName(dtype)) +
                                " blocks of " + std::to_string(block));
  }
  const int64_t blocks = shape.elements() / block;
  if (blocks > kMax / BlockBytes(dtype)) {
    return InvalidArgumentError(std::string(DTypeName(dtype)) + " " + shape.ToString() +
                                " takes more than 2^63 - 1 bytes");
  }
  return static_cast<uint64_t>(blocks * BlockBytes(dtype));
}

Status CheckDisjoint(std::vector<Extent>* extents) {
  std::sort(extents->begin(), extents->end(), [](const Extent& a, const Extent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  for (size_t i = 1; i < extents->size(); ++i) {
    const Extent& before = (*extents)[i - 1];
    const Extent& extent = (*extents)[i];
    if (extent.begin < before.end) {
      return InvalidArgumentError(TensorAt(*extent.name, extent.begin) + ": overlaps " +
                                  TensorAt(*before.name, before.begin) + ", which ends at " +
                                  std::to_string(before.end));
    }
  }
  return {};
}

}  // namespace pergola::formats
