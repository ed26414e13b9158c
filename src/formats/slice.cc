#include "formats/slice.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/mapped_file.h"
#include "formats/quoted.h"
#include "formats/sha256.h"
#include "formats/tensor_table.h"

namespace pergola::formats {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

// The parsed index with the text it points into.
struct Index {
  std::string path;  // of index.json
  simdjson::padded_string text;
  simdjson::dom::parser parser;
  element root;

  Status Wrong(const std::string& what) const { return InvalidArgumentError(path + ": " + what); }
  Result<std::string_view> String(const element& object, const char* key) const {
    std::string_view value;
    if (object[key].get(value) != simdjson::SUCCESS) {
      return Wrong("'" + std::string(key) + "' is missing or no string");
    }
    return value;
  }
  Result<int64_t> Int(const element& object, const char* key) const {
    int64_t value = 0;
    if (object[key].get(value) != simdjson::SUCCESS || value < 0) {
      return Wrong("'" + std::string(key) + "' is missing, negative or no integer");
    }
    return value;
  }
};

Result<std::unique_ptr<Index>> ReadIndex(const std::string& folder) {
  auto index = std::make_unique<Index>();
  index->path = folder + "/index.json";
  std::error_code error;
  const auto bytes = fs::file_size(index->path, error);
  if (error) return NotFoundError(index->path + " is missing: the directory is no slice");
  if (static_cast<int64_t>(bytes) > kMaxIndexBytes) return index->Wrong("is larger than 64 MiB");
  if (simdjson::padded_string::load(index->path).get(index->text) != simdjson::SUCCESS ||
      index->parser.parse(index->text).get(index->root) != simdjson::SUCCESS ||
      !index->root.is_object()) {
    return index->Wrong("is no JSON object");
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view format, index->String(index->root, "format"));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t version, index->Int(index->root, "version"));
  if (format != "pergola-slice" || version != 3) {
    return index->Wrong("is of format " + Quoted(format) + " version " + std::to_string(version) +
                        ", expected pergola-slice version 3");
  }
  return index;
}

std::optional<DType> DTypeOf(std::string_view name) {
  for (int number = 0; number < kNumDTypes; ++number) {
    if (DTypeName(static_cast<DType>(number)) == name) return static_cast<DType>(number);
  }
  return std::nullopt;
}

// A name in the index may not leave the directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Status CheckFile(const Index& index, const fs::path& folder, const element& entry, bool verify) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view name, index.String(entry, "name"));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t bytes, index.Int(entry, "bytes"));
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view sha256, index.String(entry, "sha256"));
  if (!IsPlainName(name)) return index.Wrong("file name " + Quoted(name) + " is not allowed");
  const std::string path = (folder / name).string();
  std::error_code error;
  const auto found = fs::file_size(path, error);
  if (error) return DataLossError(path + " is missing, though the slice's index lists it");
  if (static_cast<int64_t>(found) != bytes) {
    return DataLossError(path + " has " + std::to_string(found) + " bytes, expected " +
                         std::to_string(bytes));
  }
  if (!verify) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(path));
  if (digest == sha256) return OkStatus();
  return DataLossError(path + " is damaged: its SHA-256 is " + digest + ", expected " +
                       std::string(sha256));
}

Result<Shape> ReadShape(const Index& index, const element& tensor, const std::string& name) {
  simdjson::dom::array dims;
  Shape shape;
  if (tensor["shape"].get(dims) != simdjson::SUCCESS || dims.size() > kMaxRank) {
    return index.Wrong("tensor " + name + ": 'shape' is no list of at most 4 numbers");
  }
  int64_t elements = 1;
  for (const element dim : dims) {
    int64_t size = 0;
    if (dim.get(size) != simdjson::SUCCESS || size < 1 ||
        __builtin_mul_overflow(elements, size, &elements) || elements > (int64_t{1} << 50)) {
      return index.Wrong("tensor " + name + ": a dimension is out of range");
    }
    shape.dims[static_cast<size_t>(shape.rank++)] = size;
  }
  return shape;
}

// The files of the slice by name, mapped once each.
class Mappings {
 public:
  Mappings(const Index& index, fs::path folder, TensorTable& table)
      : index_(index), folder_(std::move(folder)), table_(table) {}

  struct File {
    uint32_t number;
    std::span<const std::byte> bytes;
  };
  Result<File> Get(std::string_view name) {
    if (const auto found = files_.find(name); found != files_.end()) return found->second;
    bool listed = false;
    for (const element entry : index_.root["files"].get_array()) {
      std::string_view each;
      listed |= entry["name"].get(each) == simdjson::SUCCESS && each == name;
    }
    if (!listed) return index_.Wrong("a tensor lies in " + Quoted(name) + ", which is not listed");
    const std::string path = (folder_ / name).string();
    PERGOLA_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
    const File file{table_.AddFile(path), mapping.bytes()};
    table_.Own(std::move(mapping));
    files_.emplace(name, file);
    return file;
  }

 private:
  const Index& index_;
  fs::path folder_;
  TensorTable& table_;
  std::map<std::string, File, std::less<>> files_;
};

Status AddTensor(const Index& index, const element& entry, Mappings& mappings, TensorTable& table) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view name, index.String(entry, "name"));
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view file_name, index.String(entry, "file"));
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view dtype_name, index.String(entry, "dtype"));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t offset, index.Int(entry, "offset"));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t bytes, index.Int(entry, "bytes"));
  const std::string quoted = Quoted(name);
  PERGOLA_ASSIGN_OR_RETURN(const Shape shape, ReadShape(index, entry, quoted));
  PERGOLA_ASSIGN_OR_RETURN(const Mappings::File file, mappings.Get(file_name));
  const auto size = static_cast<int64_t>(file.bytes.size());
  if (offset > size || bytes > size - offset) {
    return index.Wrong("tensor " + quoted + " reaches beyond the end of " + Quoted(file_name));
  }
  const std::optional<DType> dtype = DTypeOf(dtype_name);
  if (!dtype) {
    return table.AddUnsupported({std::string(name), std::string(dtype_name), shape,
                                 static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes),
                                 file.number});
  }
  if (shape.cols() % BlockElements(*dtype) != 0) {
    return index.Wrong("tensor " + quoted + ": rows of " + std::to_string(shape.cols()) +
                       " values are no whole blocks of " + std::string(dtype_name));
  }
  TensorInfo info{std::string(name), {nullptr, *dtype, shape}, static_cast<uint64_t>(offset), 0};
  if (info.view.bytes() != bytes) {
    return index.Wrong("tensor " + quoted + " states " + std::to_string(bytes) +
                       " bytes, its dtype and shape take " + std::to_string(info.view.bytes()));
  }
  info.view.data = file.bytes.data() + offset;
  info.file_index = file.number;
  return table.AddTensor(std::move(info));
}

Status AddMetadata(const Index& index, TensorTable& table) {
  simdjson::dom::object metadata;
  if (index.root["metadata"].get(metadata) != simdjson::SUCCESS) return OkStatus();
  for (const auto& [key, value] : metadata) {
    MetadataValue kept;
    if (value.is_bool()) {
      kept.value = bool(value);
    } else if (value.is_int64()) {
      kept.value = int64_t(value);
    } else if (value.is_number()) {
      kept.value = double(value);
    } else if (value.is_string()) {
      kept.value = table.Own(std::string(std::string_view(value)));
    } else {
      return index.Wrong("metadata " + Quoted(key) + " is no scalar");
    }
    PERGOLA_RETURN_IF_ERROR(table.AddMetadata(key, std::move(kept)));
  }
  return OkStatus();
}

}  // namespace

std::string ModelIdentity(std::string_view config, const TensorSource& source) {
  std::map<std::string_view, const TensorInfo*> by_name;
  for (const TensorInfo& tensor : source.tensors()) by_name.emplace(tensor.name, &tensor);
  std::string lines = "config " + Sha256Hex(config) + "\n";
  for (const auto& [name, tensor] : by_name) {
    const TensorView& view = tensor->view;
    lines.append(name).append(" ").append(DTypeName(view.dtype)).append(" ");
    lines += view.shape.ToString() + " " +
             Sha256Hex(std::span(view.data, static_cast<size_t>(view.bytes()))) + "\n";
  }
  return Sha256Hex(lines);
}

bool IsSlice(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::path(path) / "index.json", error);
}

Result<SliceFacts> ReadSliceFacts(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const std::unique_ptr<Index> index, ReadIndex(path));
  const element& root = index->root;
  SliceFacts facts;
  PERGOLA_ASSIGN_OR_RETURN(facts.part, index->String(root, "part"));
  PERGOLA_ASSIGN_OR_RETURN(facts.model, index->String(root, "model"));
  PERGOLA_ASSIGN_OR_RETURN(facts.identity, index->String(root, "identity"));
  PERGOLA_ASSIGN_OR_RETURN(facts.quantisation, index->String(root, "quantisation"));
  PERGOLA_ASSIGN_OR_RETURN(facts.hidden_size, index->Int(root, "hidden_size"));
  PERGOLA_ASSIGN_OR_RETURN(facts.vocab_size, index->Int(root, "vocab_size"));
  PERGOLA_ASSIGN_OR_RETURN(facts.num_layers, index->Int(root, "num_layers"));
  constexpr size_t kIdentityDigits = 64;
  if (facts.identity.size() != kIdentityDigits ||
      facts.identity.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return index->Wrong("'identity' is not 64 hexadecimal digits");
  }
  simdjson::dom::array layers;
  if (root["layers"].get(layers) == simdjson::SUCCESS && layers.size() == 2) {
    if (layers.at(0).get(facts.first_layer) != simdjson::SUCCESS ||
        layers.at(1).get(facts.last_layer) != simdjson::SUCCESS || facts.first_layer < 0 ||
        facts.last_layer < facts.first_layer || facts.last_layer >= facts.num_layers) {
      return index->Wrong("'layers' is no range of the model's layers");
    }
  }
  double scale = 1;
  bool tied = false;
  if (root["embed_scale"].get(scale) == simdjson::SUCCESS) {
    facts.embed_scale = static_cast<float>(scale);
  }
  if (root["lm_head_tied"].get(tied) == simdjson::SUCCESS) facts.lm_head_tied = tied;
  return facts;
}

Result<std::unique_ptr<TensorSource>> OpenSlice(const std::string& path, bool verify) {
  PERGOLA_RETURN_IF_ERROR(ReadSliceFacts(path).status());
  PERGOLA_ASSIGN_OR_RETURN(const std::unique_ptr<Index> index, ReadIndex(path));
  simdjson::dom::array files, tensors;
  if (index->root["files"].get(files) != simdjson::SUCCESS ||
      index->root["tensors"].get(tensors) != simdjson::SUCCESS) {
    return index->Wrong("'files' or 'tensors' is missing or no list");
  }
  for (const element file : files) {
    PERGOLA_RETURN_IF_ERROR(CheckFile(*index, path, file, verify));
  }
  auto table = std::make_unique<TensorTable>("slice");
  Mappings mappings(*index, path, *table);
  for (const element tensor : tensors) {
    PERGOLA_RETURN_IF_ERROR(AddTensor(*index, tensor, mappings, *table));
  }
  PERGOLA_RETURN_IF_ERROR(AddMetadata(*index, *table));
  return std::unique_ptr<TensorSource>(std::move(table));
}

}  // namespace pergola::formats
