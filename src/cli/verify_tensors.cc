#include "cli/verify_tensors.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/dequantise.h"

namespace pergola::cli {
namespace {

bool CanBeNonFinite(DType dtype) { return dtype != DType::kI8 && dtype != DType::kI32; }

std::optional<NonFiniteTensor> Check(const formats::TensorInfo& info, std::vector<float>* values) {
  // Whole blocks of every type, and small enough for the cache.
  constexpr int64_t kChunk = 4096;
  values->resize(kChunk);
  const int64_t elements = info.view.shape.elements();
  NonFiniteTensor found{info.name, info.file_offset, info.file_index, 0, 0};
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    const int64_t count = std::min(kChunk, elements - begin);
    // Rows are whole blocks end to end, so that the tensor is one long row.
    kernels::DequantiseRow(info.view.dtype, info.view.data + RowBytes(info.view.dtype, begin),
                           count, values->data());
    for (int64_t i = 0; i < count; ++i) {
      if (std::isfinite((*values)[static_cast<size_t>(i)])) continue;
      if (found.count++ == 0) found.first_index = begin + i;
    }
  }
  return found.count == 0 ? std::nullopt : std::optional(std::move(found));
}

}  // namespace

std::vector<NonFiniteTensor> FindNonFinite(const formats::TensorSource& source) {
  std::vector<NonFiniteTensor> all;
  std::vector<float> values;
  for (const formats::TensorInfo& info : source.tensors()) {
    if (!CanBeNonFinite(info.view.dtype)) continue;
    if (auto found = Check(info, &values)) all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace pergola::cli
