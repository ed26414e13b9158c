#include "formats/gguf.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "core/mapped_file.h"
#include "formats/byte_reader.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_types.h"
#include "formats/layout.h"
#include "formats/quoted.h"
#include "formats/tensor_table.h"

namespace pergola::formats {
namespace {

// The specification's limit of keys; tensor names are far below it.
constexpr uint64_t kMaxNameBytes = 65535;
// Fewest bytes of a key-value (empty key, one byte) and of a tensor (empty name, rank 0).
constexpr uint64_t kMinKeyValueBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;
constexpr uint64_t kMaxShards = 99999;

// A tensor as its header says; the offset counts from the start of the data.
struct Entry {
  std::string_view name;
  Shape shape;
  uint32_t type = 0;
  uint64_t offset = 0;
};

// Reads one file into a table.
class FileReader {
 public:
  FileReader(std::span<const std::byte> bytes, uint32_t file_index, TensorTable* table)
      : bytes_(bytes),
        reader_(bytes),
        metadata_(&reader_),
        file_index_(file_index),
        table_(table) {}

  Status Read() {
    PERGOLA_RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < num_key_values_; ++i) {
      PERGOLA_RETURN_IF_ERROR(ReadKeyValue(i));
    }
    std::vector<Entry> entries;
    entries.reserve(num_tensors_);
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      PERGOLA_ASSIGN_OR_RETURN(const Entry entry, ReadTensorHeader(i));
      entries.push_back(entry);
    }
    if (entries.empty()) return {};
    PERGOLA_RETURN_IF_ERROR(FindData());
    for (const Entry& entry : entries) PERGOLA_RETURN_IF_ERROR(AddEntry(entry));
    return CheckOverlaps();
  }

 private:
  Status Truncated(const std::string& what) const {
    return DataLossError(what + " at offset " + std::to_string(reader_.position()) +
                         " ends beyond the file of " + std::to_string(bytes_.size()) + " bytes");
  }

  Status ReadCounts() {
    std::string_view magic;
    uint32_t version;
    if (!reader_.ReadText(sizeof(kGgufMagic), &magic)) return Truncated("magic");
    if (magic != std::string_view(kGgufMagic, sizeof(kGgufMagic))) {
      return InvalidArgumentError("magic " + Quoted(magic) + " at offset 0, expected 'GGUF'");
    }
    if (!reader_.Read(&version)) return Truncated("version");
    if (version != 0 && (version & 0xFFFF) == 0) {
      return UnimplementedError(
          "version field at offset 4 is byte-swapped: big-endian files are not "
          "supported");
    }
    if (version != 2 && version != 3) {
      return UnimplementedError("version " + std::to_string(version) +
                                " at offset 4 not supported, only 2 and 3");
    }
    if (!reader_.Read(&num_tensors_) || !reader_.Read(&num_key_values_)) return Truncated("counts");
    PERGOLA_RETURN_IF_ERROR(CheckCount("tensors", num_tensors_, kMinTensorBytes, 8));
    return CheckCount("key-values", num_key_values_, kMinKeyValueBytes, 16);
  }

  Status CheckCount(const char* what, uint64_t count, uint64_t min_bytes, uint64_t offset) const {
    if (count <= reader_.remaining() / min_bytes) return {};
    return DataLossError(std::to_string(count) + " " + what + " (count at offset " +
                         std::to_string(offset) + ") do not fit into the file of " +
                         std::to_string(bytes_.size()) + " bytes");
  }

  // A key or a tensor's name: short and UTF-8.
  Result<std::string_view> ReadName() {
    const uint64_t start = reader_.position();
    PERGOLA_ASSIGN_OR_RETURN(const std::string_view name, metadata_.ReadString());
    const std::string at = " at offset " + std::to_string(start);
    if (name.size() > kMaxNameBytes) {
      return InvalidArgumentError("name of " + std::to_string(name.size()) + " bytes" + at +
                                  ", at most " + std::to_string(kMaxNameBytes) + " allowed");
    }
    if (!simdjson::validate_utf8(name.data(), name.size())) {
      return InvalidArgumentError("name " + Quoted(name) + at + " is not UTF-8");
    }
    return name;
  }

  Status ReadKeyValue(uint64_t index) {
    Result<std::string_view> key = ReadName();
    if (!key.ok()) return key.status().WithContext("key-value " + std::to_string(index));
    const uint64_t start = reader_.position();
    MetadataValue value;
    const Status status = metadata_.ReadValue(&value);
    if (!status.ok()) return status.WithContext("metadata key " + Quoted(*key));
    if (*key == kGgufAlignmentKey) {
      const int64_t* alignment = std::get_if<int64_t>(&value.value);
      if (!metadata_.last_was_uint32() || alignment == nullptr ||
          !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
        return InvalidArgumentError("metadata key 'general.alignment' at offset " +
                                    std::to_string(start) + ": not a power of two in a u32");
      }
      alignment_ = static_cast<uint64_t>(*alignment);
    }
    return table_->AddMetadata(*key, std::move(value));
  }

  Result<Entry> ReadTensorHeader(uint64_t index) {
    Result<std::string_view> name = ReadName();
    if (!name.ok()) return name.status().WithContext("tensor " + std::to_string(index));
    const std::string subject = "tensor " + Quoted(*name);
    const uint64_t start = reader_.position();
    Entry entry;
    entry.name = *name;
    uint32_t rank;
    if (!reader_.Read(&rank)) return Truncated(subject + ": rank");
    if (rank > kMaxRank) {
      return UnimplementedError(subject + ": rank " + std::to_string(rank) + " at offset " +
                                std::to_string(start) + ", at most " + std::to_string(kMaxRank) +
                                " supported");
    }
    uint64_t dims[kMaxRank];
    for (uint32_t axis = 0; axis < rank; ++axis) {
      // Innermost first in the file, outermost first here.
      if (!reader_.Read(&dims[rank - 1 - axis])) return Truncated(subject + ": dimension");
    }
    Result<Shape> shape = CheckedShape({dims, rank});
    if (!shape.ok()) {
      return shape.status().WithContext(subject + ", header at offset " + std::to_string(start));
    }
    entry.shape = *shape;
    if (!reader_.Read(&entry.type) || !reader_.Read(&entry.offset)) {
      return Truncated(subject + ": type and offset");
    }
    return entry;
  }

  Status FindData() {
    const uint64_t position = reader_.position();
    // No overflow: positions are below 2^63, the alignment below 2^32.
    data_offset_ = (position + alignment_ - 1) / alignment_ * alignment_;
    if (data_offset_ < bytes_.size()) return {};
    return DataLossError("data would begin at offset " + std::to_string(data_offset_) +
                         ", the file has " + std::to_string(bytes_.size()) + " bytes");
  }

  Status AddEntry(const Entry& entry) {
    const uint64_t available = bytes_.size() - data_offset_;
    if (entry.offset >= available) {
      return DataLossError("tensor " + Quoted(entry.name) + ": offset " +
                           std::to_string(entry.offset) + " is beyond the " +
                           std::to_string(available) + " bytes of data at offset " +
                           std::to_string(data_offset_));
    }
    const uint64_t file_offset = data_offset_ + entry.offset;
    const std::string subject = TensorAt(entry.name, file_offset);
    if (entry.offset % alignment_ != 0) {
      return InvalidArgumentError(subject + ": offset " + std::to_string(entry.offset) +
                                  " in the data is not a multiple of the alignment " +
                                  std::to_string(alignment_));
    }
    const std::optional<DType> dtype = GgufTypeFromNumber(entry.type);
    if (!dtype) {
      return table_->AddUnsupported({std::string(entry.name), "type " + std::to_string(entry.type),
                                     entry.shape, file_offset, 0, file_index_});
    }
    Result<uint64_t> size = CheckedBytes(*dtype, entry.shape);
    if (!size.ok()) return size.status().WithContext(subject);
    if (*size > available - entry.offset) {
      return DataLossError(subject + ": its " + std::to_string(*size) +
                           " bytes end beyond the file of " + std::to_string(bytes_.size()) +
                           " bytes");
    }
    const TensorView view{bytes_.data() + file_offset, *dtype, entry.shape};
    return table_->AddTensor({std::string(entry.name), view, file_offset, file_index_});
  }

  Status CheckOverlaps() const {
    std::vector<Extent> extents;
    for (const TensorInfo& info : table_->tensors()) {
      const uint64_t size = static_cast<uint64_t>(info.view.bytes());
      extents.push_back({info.file_offset, info.file_offset + size, &info.name});
    }
    for (const UnsupportedTensor& info : table_->unsupported()) {
      // Of unknown size, at least one byte.
      extents.push_back({info.file_offset, info.file_offset + 1, &info.name});
    }
    return CheckDisjoint(&extents);
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  GgufMetadataReader metadata_;
  uint32_t file_index_;
  TensorTable* table_;
  uint64_t num_tensors_ = 0;
  uint64_t num_key_values_ = 0;
  uint64_t alignment_ = kGgufDefaultAlignment;
  uint64_t data_offset_ = 0;
};

std::string Context(const std::string& path) { return "GGUF file " + Quoted(path); }

// `table` is empty: one table per file.
Status ReadInto(std::span<const std::byte> bytes, const std::string& name, TensorTable* table) {
  const uint32_t file_index = table->AddFile(name);
  return FileReader(bytes, file_index, table).Read().WithContext(Context(name));
}

Status ReadMapped(const std::string& path, TensorTable* table) {
  PERGOLA_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  table->Own(std::move(file));
  return ReadInto(bytes, path, table);
}

std::string ShardSuffix(uint64_t number, uint64_t count) {
  char text[48];
  std::snprintf(text, sizeof(text), "-%05u-of-%05u.gguf", static_cast<unsigned>(number),
                static_cast<unsigned>(count));
  return text;
}

Status CheckShard(const TensorTable& shard, int64_t number, int64_t count) {
  if (shard.GetInt("split.no") == number && shard.GetInt("split.count") == count) return {};
  return InvalidArgumentError("split.no and split.count are not " + std::to_string(number) +
                              " and " + std::to_string(count));
}

// Adds the other files of a split model to `table`, which holds the first.
Status ReadOtherShards(const std::string& path, uint64_t count, TensorTable* table) {
  const std::string suffix = ShardSuffix(1, count);
  if (count > kMaxShards || !path.ends_with(suffix)) {
    return InvalidArgumentError("first of " + std::to_string(count) +
                                " files of a split model: its name should end in " +
                                Quoted(suffix));
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  for (uint64_t number = 2; number <= count; ++number) {
    const std::string shard_path = prefix + ShardSuffix(number, count);
    TensorTable shard("gguf");
    PERGOLA_RETURN_IF_ERROR(ReadMapped(shard_path, &shard));
    PERGOLA_RETURN_IF_ERROR(
        CheckShard(shard, static_cast<int64_t>(number - 1), static_cast<int64_t>(count))
            .WithContext(Context(shard_path)));
    PERGOLA_RETURN_IF_ERROR(table->Append(std::move(shard)));
  }
  const auto total = static_cast<int64_t>(table->tensors().size() + table->unsupported().size());
  if (table->GetInt("split.tensors.count").value_or(total) == total) return {};
  return InvalidArgumentError("split.tensors.count is " +
                              std::to_string(*table->GetInt("split.tensors.count")) +
                              ", the files hold " + std::to_string(total) + " tensors");
}

Status ReadSplit(const std::string& path, TensorTable* table) {
  const int64_t count = table->GetInt("split.count").value_or(0);
  if (count <= 1) return {};
  if (const int64_t number = table->GetInt("split.no").value_or(0); number != 0) {
    return InvalidArgumentError("file " + std::to_string(number + 1) + " of " +
                                std::to_string(count) +
                                " of a split model: open the first one instead");
  }
  return ReadOtherShards(path, static_cast<uint64_t>(count), table);
}

}  // namespace

Result<std::unique_ptr<TensorSource>> OpenGguf(const std::string& path) {
  auto table = std::make_unique<TensorTable>("gguf");
  PERGOLA_RETURN_IF_ERROR(ReadMapped(path, table.get()));
  PERGOLA_RETURN_IF_ERROR(ReadSplit(path, table.get()).WithContext(Context(path)));
  table->SortByOffset();
  return std::unique_ptr<TensorSource>(std::move(table));
}

Result<std::unique_ptr<TensorSource>> ParseGguf(std::span<const std::byte> bytes,
                                                const std::string& name) {
  auto table = std::make_unique<TensorTable>("gguf");
  PERGOLA_RETURN_IF_ERROR(ReadInto(bytes, name, table.get()));
  table->SortByOffset();
  return std::unique_ptr<TensorSource>(std::move(table));
}

bool LooksLikeGguf(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(kGgufMagic) &&
         std::memcmp(bytes.data(), kGgufMagic, sizeof(kGgufMagic)) == 0;
}

}  // namespace pergola::formats
