// What a reader fills: the one implementation of TensorSource's accessors.
//
//   auto table = std::make_unique<TensorTable>("gguf");
//   const uint32_t file = table->AddFile(path);
//   PERGOLA_RETURN_IF_ERROR(table->AddTensor({name, view, offset, file}));
//   return table;   // as unique_ptr<TensorSource>: immutable from here on
//
// It trusts the views it is given; the checks belong to the readers.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/mapped_file.h"
#include "formats/tensor_source.h"

namespace pergola::formats {

// Thread-compatible while filled, thread-safe afterwards.
class TensorTable : public TensorSource {
 public:
  // "safetensors", "gguf" or "memory".
  explicit TensorTable(std::string_view format) : format_(format) {}

  std::string_view format() const override { return format_; }
  std::span<const std::string> files() const override { return files_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  std::span<const UnsupportedTensor> unsupported() const override { return unsupported_; }
  const std::map<std::string, MetadataValue, std::less<>>& metadata() const override {
    return metadata_;
  }
  const TensorInfo* Find(std::string_view name) const override;

  // Names a file; returns its index. Its bytes must outlive the table, see Own().
  uint32_t AddFile(std::string path);
  // Keeps the mapping that the views of some file point into.
  void Own(MappedFile mapping) { mappings_.push_back(std::move(mapping)); }
  // Keeps a text that metadata is a view of.
  std::string_view Own(std::string text) { return texts_.emplace_back(std::move(text)); }

  // INVALID_ARGUMENT when the name is already there, supported or not.
  Status AddTensor(TensorInfo info);
  Status AddUnsupported(UnsupportedTensor info);
  // INVALID_ARGUMENT when the key is already there.
  Status AddMetadata(std::string_view key, MetadataValue value);

  // Adds the files and tensors of a shard, and those metadata whose keys are not there yet.
  // INVALID_ARGUMENT when a tensor's name is already there.
  Status Append(TensorTable shard);

  // Puts tensors of each file into the order of their offsets.
  void SortByOffset();

 private:
  Status CheckNewName(std::string_view name, uint64_t file_offset) const;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  // Value: index into tensors_, or kNotSupported.
  static constexpr size_t kNotSupported = static_cast<size_t>(-1);

  std::string_view format_;
  std::vector<std::string> files_;
  std::vector<MappedFile> mappings_;
  std::deque<std::string> texts_;             // a deque: views stay valid as it grows
  std::list<std::deque<std::string>> owned_;  // texts of appended shards
  std::vector<TensorInfo> tensors_;
  std::vector<UnsupportedTensor> unsupported_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> index_;
  std::map<std::string, MetadataValue, std::less<>> metadata_;
};

}  // namespace pergola::formats
