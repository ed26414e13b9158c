// A TensorSource made by hand: for tests, and for tensors that a program computes.
//
//   auto source = std::make_unique<MemorySource>();
//   PERGOLA_RETURN_IF_ERROR(source->AddF32("weight", {2, 3}, {1, 2, 3, 4, 5, 6}));
//   PERGOLA_RETURN_IF_ERROR(source->Set("bert.block_count", int64_t{6}));
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_table.h"

namespace pergola::formats {

// Owns the bytes. Thread-compatible while filled, thread-safe afterwards.
class MemorySource : public TensorTable {
 public:
  MemorySource() : TensorTable("memory") { AddFile("memory"); }

  // `bytes` has the size that type and shape say. INVALID_ARGUMENT when not, for a zero dimension,
  // rows that are not whole blocks, or a name used before.
  Status Add(std::string name, DType dtype, const Shape& shape, std::vector<std::byte> bytes);

  // The same for f32 values, row-major.
  Status AddF32(std::string name, const Shape& shape, const std::vector<float>& values);

  // Strings are copied, the views in arrays of strings too. INVALID_ARGUMENT when the key is there.
  Status Set(std::string_view key, bool value) { return AddMetadata(key, {value}); }
  Status Set(std::string_view key, int64_t value) { return AddMetadata(key, {value}); }
  Status Set(std::string_view key, double value) { return AddMetadata(key, {value}); }
  Status Set(std::string_view key, const char* value);
  Status Set(std::string_view key, const std::vector<std::string>& values);

 private:
  std::deque<std::vector<std::byte>> buffers_;
  uint64_t next_offset_ = 0;
};

}  // namespace pergola::formats
