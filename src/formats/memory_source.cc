#include "formats/memory_source.h"

#include <cstring>

#include "formats/layout.h"

namespace pergola::formats {

Status MemorySource::Add(std::string name, DType dtype, const Shape& shape,
                         std::vector<std::byte> bytes) {
  const std::string subject = TensorAt(name, next_offset_);
  std::vector<uint64_t> dims;
  for (int axis = 0; axis < shape.rank; ++axis) {
    dims.push_back(static_cast<uint64_t>(shape[axis]));
  }
  const Status shape_status = CheckedShape(dims).status();
  if (!shape_status.ok()) return shape_status.WithContext(subject);
  const Result<uint64_t> expected = CheckedBytes(dtype, shape);
  if (!expected.ok()) return expected.status().WithContext(subject);
  if (bytes.size() != *expected) {
    return InvalidArgumentError(subject + ": " + std::string(DTypeName(dtype)) + " " +
                                shape.ToString() + " takes " + std::to_string(*expected) +
                                " bytes, got " + std::to_string(bytes.size()));
  }
  PERGOLA_RETURN_IF_ERROR(
      AddTensor({std::move(name), TensorView{bytes.data(), dtype, shape}, next_offset_, 0}));
  next_offset_ += bytes.size();
  buffers_.push_back(std::move(bytes));  // the allocation, and so the view, stays
  return {};
}

Status MemorySource::AddF32(std::string name, const Shape& shape,
                            const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Add(std::move(name), DType::kF32, shape, std::move(bytes));
}

Status MemorySource::Set(std::string_view key, const char* value) {
  return AddMetadata(key, {Own(std::string(value))});
}

Status MemorySource::Set(std::string_view key, const std::vector<std::string>& values) {
  std::vector<std::string_view> views;
  views.reserve(values.size());
  for (const std::string& value : values) views.push_back(Own(value));
  return AddMetadata(key, {std::move(views)});
}

}  // namespace pergola::formats
