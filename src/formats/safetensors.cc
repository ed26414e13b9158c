#include "formats/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "core/mapped_file.h"
#include "formats/layout.h"
#include "formats/quoted.h"
#include "formats/tensor_table.h"

namespace pergola::formats {
namespace {

namespace dom = simdjson::dom;

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxJsonDepth = 16;
constexpr char kIndexName[] = "model.safetensors.index.json";

// Parses a whole JSON text (copied by simdjson, which wants padding behind it).
Result<dom::element> ParseJson(std::string_view text, dom::parser* parser) {
  simdjson::error_code error = parser->allocate(text.size(), kMaxJsonDepth);
  dom::element root;
  if (!error) error = parser->parse(text.data(), text.size(), true).get(root);
  if (error) {
    return InvalidArgumentError(std::string("not valid JSON: ") + simdjson::error_message(error));
  }
  return root;
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct TypeFacts {
  std::string_view name;
  std::optional<DType> dtype;  // empty: listed as unsupported
  uint64_t bytes;              // per element
};

constexpr TypeFacts kTypes[] = {
    {"F32", DType::kF32, 4},  {"F16", DType::kF16, 2},      {"BF16", DType::kBF16, 2},
    {"I8", DType::kI8, 1},    {"I32", DType::kI32, 4},      {"BOOL", std::nullopt, 1},
    {"U8", std::nullopt, 1},  {"I16", std::nullopt, 2},     {"U16", std::nullopt, 2},
    {"U32", std::nullopt, 4}, {"I64", std::nullopt, 8},     {"U64", std::nullopt, 8},
    {"F64", std::nullopt, 8}, {"F8_E4M3", std::nullopt, 1}, {"F8_E5M2", std::nullopt, 1},
};

// One entry of the header, as read: nothing checked yet.
struct Entry {
  std::string_view name;
  std::string_view type;
  std::vector<uint64_t> dims;
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<std::vector<uint64_t>> ReadNumbers(dom::element value, const char* field) {
  dom::array array;
  if (value.get(array)) return InvalidArgumentError(std::string(field) + " is not an array");
  std::vector<uint64_t> numbers;
  for (const dom::element item : array) {
    uint64_t number;
    if (item.get(number)) {
      return InvalidArgumentError(std::string(field) + " holds something else than whole numbers");
    }
    numbers.push_back(number);
  }
  return numbers;
}

// Unknown fields are ignored, as the reference does.
Result<Entry> ReadFields(std::string_view name, dom::element value) {
  dom::object object;
  if (value.get(object)) return InvalidArgumentError("is not an object");
  Entry entry;
  entry.name = name;
  int num_types = 0, num_shapes = 0, num_offsets = 0;
  for (const dom::key_value_pair field : object) {
    if (field.key == "dtype") {
      ++num_types;
      if (field.value.get(entry.type)) return InvalidArgumentError("dtype is not a string");
    } else if (field.key == "shape") {
      ++num_shapes;
      PERGOLA_ASSIGN_OR_RETURN(entry.dims, ReadNumbers(field.value, "shape"));
    } else if (field.key == "data_offsets") {
      ++num_offsets;
      PERGOLA_ASSIGN_OR_RETURN(const auto offsets, ReadNumbers(field.value, "data_offsets"));
      if (offsets.size() != 2) {
        return InvalidArgumentError("data_offsets has " + std::to_string(offsets.size()) +
                                    " numbers, expected 2");
      }
      entry.begin = offsets[0];
      entry.end = offsets[1];
    }
  }
  if (num_types != 1 || num_shapes != 1 || num_offsets != 1) {
    return InvalidArgumentError("needs dtype, shape and data_offsets, each once");
  }
  return entry;
}

// Reads one file into a table.
class FileReader {
 public:
  FileReader(std::span<const std::byte> bytes, uint32_t file_index, TensorTable* table)
      : bytes_(bytes), file_index_(file_index), table_(table) {}

  Status Read() {
    PERGOLA_ASSIGN_OR_RETURN(const std::string_view header, FindHeader());
    dom::parser parser;
    Result<dom::element> root = ParseJson(header, &parser);
    if (!root.ok()) return root.status().WithContext("header at offset 8");
    dom::object object;
    if (root->get(object)) return InvalidArgumentError("header at offset 8: not a JSON object");
    bool has_metadata = false;
    for (const dom::key_value_pair field : object) {
      if (field.key == "__metadata__") {
        if (has_metadata) return InvalidArgumentError("header: '__metadata__' is there twice");
        has_metadata = true;
        PERGOLA_RETURN_IF_ERROR(ReadMetadata(field.value));
      } else {
        PERGOLA_RETURN_IF_ERROR(ReadTensor(field.key, field.value));
      }
    }
    return CheckCoverage();
  }

 private:
  Result<std::string_view> FindHeader() {
    if (bytes_.size() < 8) {
      return DataLossError("ends at " + std::to_string(bytes_.size()) +
                           ", inside the 8 bytes of the header length at offset 0");
    }
    uint64_t header_bytes;
    std::memcpy(&header_bytes, bytes_.data(), sizeof(header_bytes));
    const std::string claim = "header length " + std::to_string(header_bytes) + " at offset 0";
    if (header_bytes > kMaxHeaderBytes) {
      return InvalidArgumentError(claim + ": at most " + std::to_string(kMaxHeaderBytes) +
                                  " allowed: not a safetensors file?");
    }
    if (header_bytes > bytes_.size() - 8) {
      return DataLossError(claim + ": the file has only " + std::to_string(bytes_.size()) +
                           " bytes");
    }
    data_ = bytes_.subspan(8 + header_bytes);
    data_offset_ = 8 + header_bytes;
    return AsText(bytes_.subspan(8, header_bytes));
  }

  Status ReadMetadata(dom::element value) {
    dom::object object;
    if (value.get(object)) return InvalidArgumentError("header: '__metadata__' is not an object");
    for (const dom::key_value_pair field : object) {
      std::string_view text;
      if (field.value.get(text)) {
        return InvalidArgumentError("metadata key " + Quoted(field.key) + ": not a string");
      }
      PERGOLA_RETURN_IF_ERROR(table_->AddMetadata(field.key, {table_->Own(std::string(text))}));
    }
    return {};
  }

  Status ReadTensor(std::string_view name, dom::element value) {
    Result<Entry> entry = ReadFields(name, value);
    if (!entry.ok()) return entry.status().WithContext("tensor " + Quoted(name) + " in the header");
    if (entry->begin > entry->end || entry->end > data_.size()) {
      const std::string range =
          "[" + std::to_string(entry->begin) + ", " + std::to_string(entry->end) + "]";
      return DataLossError("tensor " + Quoted(name) + ": data_offsets " + range +
                           " are not within the " + std::to_string(data_.size()) +
                           " bytes of data at offset " + std::to_string(data_offset_));
    }
    Status status = AddEntry(*entry);
    const std::string subject = TensorAt(name, data_offset_ + entry->begin);
    // A duplicate's message has the subject already.
    return status.message().starts_with("tensor ") ? status : status.WithContext(subject);
  }

  Status AddEntry(const Entry& entry) {
    PERGOLA_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(entry.dims));
    const uint64_t held = entry.end - entry.begin;
    const uint64_t offset = data_offset_ + entry.begin;
    const auto* facts = std::find_if(std::begin(kTypes), std::end(kTypes),
                                     [&](const TypeFacts& f) { return f.name == entry.type; });
    if (facts != std::end(kTypes)) {
      // As a product in two steps: elements() fits in 63 bits, `held` in 64.
      const auto elements = static_cast<uint64_t>(shape.elements());
      if (held % facts->bytes != 0 || held / facts->bytes != elements) {
        return InvalidArgumentError(std::string(entry.type) + " " + shape.ToString() + " is " +
                                    std::to_string(elements) + " elements of " +
                                    std::to_string(facts->bytes) + " bytes, data_offsets hold " +
                                    std::to_string(held) + " bytes");
      }
    }
    if (facts != std::end(kTypes) && facts->dtype) {
      const TensorView view{data_.data() + entry.begin, *facts->dtype, shape};
      return table_->AddTensor({std::string(entry.name), view, offset, file_index_});
    }
    if (held == 0) return InvalidArgumentError("has no bytes");
    return table_->AddUnsupported(
        {std::string(entry.name), std::string(entry.type), shape, offset, held, file_index_});
  }

  // The tensors of this file follow each other without gap from the first byte of data to the last.
  Status CheckCoverage() const {
    std::vector<Extent> extents;
    for (const TensorInfo& info : table_->tensors()) {
      if (info.file_index != file_index_) continue;
      const uint64_t size = static_cast<uint64_t>(info.view.bytes());
      extents.push_back({info.file_offset, info.file_offset + size, &info.name});
    }
    for (const UnsupportedTensor& info : table_->unsupported()) {
      if (info.file_index != file_index_) continue;
      extents.push_back({info.file_offset, info.file_offset + info.bytes, &info.name});
    }
    PERGOLA_RETURN_IF_ERROR(CheckDisjoint(&extents));
    uint64_t end = data_offset_;
    for (const Extent& extent : extents) {
      if (extent.begin != end) {
        return InvalidArgumentError(TensorAt(*extent.name, extent.begin) + ": gap of " +
                                    std::to_string(extent.begin - end) + " bytes before it");
      }
      end = extent.end;
    }
    if (end == bytes_.size()) return {};
    return InvalidArgumentError("gap of " + std::to_string(bytes_.size() - end) +
                                " bytes at offset " + std::to_string(end) +
                                ", after the last tensor");
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  uint64_t data_offset_ = 0;
  uint32_t file_index_;
  TensorTable* table_;
};

Status ReadInto(std::span<const std::byte> bytes, const std::string& name, TensorTable* table) {
  const uint32_t file_index = table->AddFile(name);
  return FileReader(bytes, file_index, table)
      .Read()
      .WithContext("safetensors file " + Quoted(name));
}

Status ReadMapped(const std::string& path, TensorTable* table) {
  PERGOLA_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  table->Own(std::move(file));
  return ReadInto(bytes, path, table);
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

struct Index {
  std::set<std::string> shards;
  std::map<std::string, std::string> shard_of;
};

Result<Index> ParseIndex(std::string_view text) {
  if (text.size() > kMaxHeaderBytes) return InvalidArgumentError("larger than 100 MB");
  dom::parser parser;
  PERGOLA_ASSIGN_OR_RETURN(const dom::element root, ParseJson(text, &parser));
  dom::object weight_map;
  if (root.at_key("weight_map").get(weight_map)) {
    return InvalidArgumentError("no object 'weight_map'");
  }
  Index index;
  for (const dom::key_value_pair field : weight_map) {
    std::string_view shard;
    if (field.value.get(shard) || !IsPlainFileName(shard)) {
      return InvalidArgumentError("tensor " + Quoted(field.key) + ": the shard " + Quoted(shard) +
                                  " is not the name of a file beside the index");
    }
    index.shards.emplace(shard);
    if (!index.shard_of.emplace(field.key, shard).second) {
      return InvalidArgumentError("tensor " + Quoted(field.key) + ": the name is there twice");
    }
  }
  if (index.shards.empty()) return InvalidArgumentError("'weight_map' is empty");
  return index;
}

// Every tensor of the index is in the shard that the index says.
Status CheckIndex(const Index& index, const std::string& folder, const TensorTable& table) {
  std::map<std::string_view, uint32_t> place;
  for (const TensorInfo& info : table.tensors()) place.emplace(info.name, info.file_index);
  for (const UnsupportedTensor& info : table.unsupported()) {
    place.emplace(info.name, info.file_index);
  }
  for (const auto& [name, shard] : index.shard_of) {
    const auto found = place.find(name);
    if (found == place.end() || table.files()[found->second] != folder + "/" + shard) {
      return InvalidArgumentError("tensor " + Quoted(name) + ": not in the shard " + Quoted(shard));
    }
  }
  return {};
}

Status ReadSharded(const std::string& folder, TensorTable* table) {
  const std::string path = folder + "/" + kIndexName;
  PERGOLA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string context = "safetensors index " + Quoted(path);
  Result<Index> index = ParseIndex(AsText(file.bytes()));
  if (!index.ok()) return index.status().WithContext(context);
  for (const std::string& shard : index->shards) {
    // Metadata says "pt" in every shard: that of the first counts.
    TensorTable part("safetensors");
    PERGOLA_RETURN_IF_ERROR(ReadMapped(folder + "/" + shard, &part));
    PERGOLA_RETURN_IF_ERROR(table->Append(std::move(part)).WithContext(context));
  }
  return CheckIndex(*index, folder, *table).WithContext(context);
}

}  // namespace

Result<std::unique_ptr<TensorSource>> OpenSafetensors(const std::string& path) {
  auto table = std::make_unique<TensorTable>("safetensors");
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    PERGOLA_RETURN_IF_ERROR(ReadMapped(path, table.get()));
  } else if (std::filesystem::exists(path + "/model.safetensors", ignored)) {
    PERGOLA_RETURN_IF_ERROR(ReadMapped(path + "/model.safetensors", table.get()));
  } else if (std::filesystem::exists(path + "/" + kIndexName, ignored)) {
    PERGOLA_RETURN_IF_ERROR(ReadSharded(path, table.get()));
  } else {
    return NotFoundError("folder " + Quoted(path) + ": neither model.safetensors nor " +
                         kIndexName + " in it");
  }
  table->SortByOffset();
  return std::unique_ptr<TensorSource>(std::move(table));
}

Result<std::unique_ptr<TensorSource>> ParseSafetensors(std::span<const std::byte> bytes,
                                                       const std::string& name) {
  auto table = std::make_unique<TensorTable>("safetensors");
  PERGOLA_RETURN_IF_ERROR(ReadInto(bytes, name, table.get()));
  table->SortByOffset();
  return std::unique_ptr<TensorSource>(std::move(table));
}

}  // namespace pergola::formats
