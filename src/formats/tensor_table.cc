#include "formats/tensor_table.h"

#include <algorithm>
#include <tuple>

#include "formats/layout.h"
#include "formats/quoted.h"

namespace pergola::formats {

const TensorInfo* TensorTable::Find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end() || found->second == kNotSupported) return nullptr;
  return &tensors_[found->second];
}

uint32_t TensorTable::AddFile(std::string path) {
  files_.push_back(std::move(path));
  return static_cast<uint32_t>(files_.size() - 1);
}

Status TensorTable::CheckNewName(std::string_view name, uint64_t file_offset) const {
  if (index_.find(name) == index_.end()) return {};
  return InvalidArgumentError(TensorAt(name, file_offset) + ": the name is there twice");
}

Status TensorTable::AddTensor(TensorInfo info) {
  PERGOLA_RETURN_IF_ERROR(CheckNewName(info.name, info.file_offset));
  index_.emplace(info.name, tensors_.size());
  tensors_.push_back(std::move(info));
  return {};
}

Status TensorTable::AddUnsupported(UnsupportedTensor info) {
  PERGOLA_RETURN_IF_ERROR(CheckNewName(info.name, info.file_offset));
  index_.emplace(info.name, kNotSupported);
  unsupported_.push_back(std::move(info));
  return {};
}

Status TensorTable::AddMetadata(std::string_view key, MetadataValue value) {
  if (metadata_.try_emplace(std::string(key), std::move(value)).second) return {};
  return InvalidArgumentError("metadata key " + Quoted(key) + ": there twice");
}

Status TensorTable::Append(TensorTable shard) {
  const auto first_file = static_cast<uint32_t>(files_.size());
  for (std::string& path : shard.files_) files_.push_back(std::move(path));
  for (MappedFile& mapping : shard.mappings_) mappings_.push_back(std::move(mapping));
  for (TensorInfo& info : shard.tensors_) {
    info.file_index += first_file;
    PERGOLA_RETURN_IF_ERROR(AddTensor(std::move(info)));
  }
  for (UnsupportedTensor& info : shard.unsupported_) {
    info.file_index += first_file;
    PERGOLA_RETURN_IF_ERROR(AddUnsupported(std::move(info)));
  }
  // Moving a text may move its bytes, and then a view of it: shards keep their texts in place.
  owned_.push_back(std::move(shard.texts_));
  for (std::deque<std::string>& texts : shard.owned_) owned_.push_back(std::move(texts));
  metadata_.merge(shard.metadata_);
  return {};
}

void TensorTable::SortByOffset() {
  const auto by_place = [](const auto& a, const auto& b) {
    return std::tie(a.file_index, a.file_offset) < std::tie(b.file_index, b.file_offset);
  };
  std::stable_sort(tensors_.begin(), tensors_.end(), by_place);
  std::stable_sort(unsupported_.begin(), unsupported_.end(), by_place);
  for (size_t i = 0; i < tensors_.size(); ++i) index_.find(tensors_[i].name)->second = i;
}

}  // namespace pergola::formats
