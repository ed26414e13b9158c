#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/json_text.h"
#include "formats/byte_sink.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/sha256.h"
#include "formats/slice.h"

namespace pergola::formats {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, MetadataValue, std::less<>>;

constexpr uint64_t kRowAlignment = 64;

// With a point or an exponent, so that it is read back as a floating-point number.
std::string JsonReal(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string text(digits, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// Empty for arrays and what JSON cannot say.
std::string JsonScalar(const MetadataValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value.value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value.value)) {
    return std::isfinite(*real) ? JsonReal(*real) : "";
  }
  if (const auto* text = std::get_if<std::string_view>(&value.value)) return JsonString(*text);
  return "";
}

// Where each tensor of a file came to lie.
struct Placed {
  const TensorInfo* tensor;
  uint64_t offset;
};

Result<std::vector<Placed>> WriteRows(const std::string& path, const SliceFile& file) {
  std::vector<Placed> placed;
  uint64_t position = 0;
  const Status status = WriteFileWhole(path, [&](const ByteSink& sink) {
    for (const TensorInfo* tensor : file.tensors) {
      const uint64_t padding = (kRowAlignment - position % kRowAlignment) % kRowAlignment;
      PERGOLA_RETURN_IF_ERROR(sink(std::string(padding, '\0')));
      position += padding;
      placed.push_back({tensor, position});
      const auto bytes = static_cast<size_t>(tensor->view.bytes());
      PERGOLA_RETURN_IF_ERROR(sink({reinterpret_cast<const char*>(tensor->view.data), bytes}));
      position += bytes;
    }
    return OkStatus();
  });
  if (!status.ok()) return status;
  return placed;
}

Result<std::vector<Placed>> WriteGguf(const std::string& path, const SliceFile& file) {
  GgufWriter writer;
  writer.SetString("general.type", "slice");
  for (const TensorInfo* tensor : file.tensors) {
    PERGOLA_RETURN_IF_ERROR(writer.Add(tensor->name, tensor->view));
  }
  PERGOLA_RETURN_IF_ERROR(writer.Write(path));
  PERGOLA_ASSIGN_OR_RETURN(const auto written, OpenTensorSource(path));
  std::vector<Placed> placed;
  for (const TensorInfo* tensor : file.tensors) {
    placed.push_back({tensor, written->Find(tensor->name)->file_offset});
  }
  return placed;
}

Result<std::vector<Placed>> WriteOne(const fs::path& folder, const SliceFile& file) {
  const std::string path = (folder / file.name).string();
  if (!file.tensors.empty()) {
    return file.name.ends_with(".gguf") ? WriteGguf(path, file) : WriteRows(path, file);
  }
  if (!file.copy_of.empty()) {
    std::error_code error;
    fs::copy_file(file.copy_of, path, error);
    if (error) return UnavailableError("cannot copy " + file.copy_of + ": " + error.message());
    return std::vector<Placed>();
  }
  PERGOLA_RETURN_IF_ERROR(
      WriteFileWhole(path, [&](const ByteSink& sink) { return sink(file.text); }));
  return std::vector<Placed>();
}

std::string FactsJson(const SliceFacts& facts) {
  std::string out =
      "{\"format\":\"pergola-slice\",\"version\":3,\"part\":" + JsonString(facts.part);
  if (facts.last_layer >= facts.first_layer) {
    out += ",\"layers\":[" + std::to_string(facts.first_layer) + "," +
           std::to_string(facts.last_layer) + "]";
  }
  out += ",\"model\":" + JsonString(facts.model) + ",\"identity\":" + JsonString(facts.identity) +
         ",\"quantisation\":" + JsonString(facts.quantisation) +
         ",\"hidden_size\":" + std::to_string(facts.hidden_size) +
         ",\"vocab_size\":" + std::to_string(facts.vocab_size) +
         ",\"num_layers\":" + std::to_string(facts.num_layers) +
         ",\"embed_scale\":" + JsonReal(static_cast<double>(facts.embed_scale)) +
         ",\"lm_head_tied\":" + (facts.lm_head_tied ? "true" : "false");
  return out;
}

std::string TensorJson(const Placed& placed, const std::string& file) {
  const TensorView& view = placed.tensor->view;
  std::string shape;
  for (int axis = 0; axis < view.shape.rank; ++axis) {
    shape += (axis > 0 ? "," : "") + std::to_string(view.shape[axis]);
  }
  return "{\"name\":" + JsonString(placed.tensor->name) + ",\"file\":" + JsonString(file) +
         ",\"offset\":" + std::to_string(placed.offset) +
         ",\"bytes\":" + std::to_string(view.bytes()) +
         ",\"dtype\":" + JsonString(DTypeName(view.dtype)) + ",\"shape\":[" + shape + "]}";
}

Status WriteInto(const fs::path& folder, const SliceFacts& facts,
                 const std::vector<SliceFile>& files, const Metadata& metadata) {
  std::string file_list, tensor_list;
  for (const SliceFile& file : files) {
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<Placed> placed, WriteOne(folder, file));
    for (const Placed& each : placed) {
      tensor_list += (tensor_list.empty() ? "\n" : ",\n") + TensorJson(each, file.name);
    }
    const std::string path = (folder / file.name).string();
    PERGOLA_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(path));
    file_list += std::string(file_list.empty() ? "\n" : ",\n") +
                 "{\"name\":" + JsonString(file.name) +
                 ",\"bytes\":" + std::to_string(fs::file_size(path)) +
                 ",\"sha256\":" + JsonString(digest) + "}";
  }
  std::string index = FactsJson(facts);
  if (!metadata.empty()) index += ",\n\"metadata\":" + MetadataJson(metadata);
  index += ",\n\"files\":[" + file_list + "],\n\"tensors\":[" + tensor_list + "]}\n";
  return WriteFileWhole((folder / "index.json").string(),
                        [&](const ByteSink& sink) { return sink(index); });
}

}  // namespace

Status WriteSlice(const std::string& path, const SliceFacts& facts,
                  const std::vector<SliceFile>& files, const Metadata& metadata) {
  std::error_code error;
  if (fs::exists(path, error)) return AlreadyExistsError(path + " is already there");
  const fs::path fresh = path + ".new";
  fs::remove_all(fresh, error);
  fs::create_directories(fresh, error);
  if (error) return UnavailableError("cannot make " + fresh.string() + ": " + error.message());
  Status status = WriteInto(fresh, facts, files, metadata);
  if (status.ok()) {
    fs::rename(fresh, path, error);
    if (error) status = UnavailableError("cannot rename to " + path + ": " + error.message());
  }
  std::error_code ignored;
  if (!status.ok()) fs::remove_all(fresh, ignored);
  return status;
}

std::string MetadataJson(const Metadata& metadata) {
  std::string members;
  for (const auto& [key, value] : metadata) {
    const std::string json = JsonScalar(value);
    if (json.empty()) continue;
    members += (members.empty() ? "\n" : ",\n") + JsonString(key) + ":" + json;
  }
  return "{" + members + "}";
}

std::string TokenizerGguf(const Metadata& metadata) {
  GgufWriter writer;
  for (const auto& [key, value] : metadata) {
    const bool wanted = key.starts_with("tokenizer.") || key == "general.architecture";
    if (!wanted) continue;
    if (const auto* flag = std::get_if<bool>(&value.value)) {
      writer.SetBool(key, *flag);
    } else if (const auto* integer = std::get_if<int64_t>(&value.value)) {
      writer.SetUint32(key, static_cast<uint32_t>(*integer));
    } else if (const auto* text = std::get_if<std::string_view>(&value.value)) {
      writer.SetString(key, *text);
    } else if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value.value)) {
      writer.SetStrings(key, std::vector<std::string>(texts->begin(), texts->end()));
    } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value.value)) {
      writer.SetInt32s(key, std::vector<int32_t>(integers->begin(), integers->end()));
    } else if (const auto* reals = std::get_if<std::vector<float>>(&value.value)) {
      writer.SetFloat32s(key, *reals);
    } else if (const auto* real = std::get_if<double>(&value.value)) {
      writer.SetFloat32(key, static_cast<float>(*real));
    }
  }
  return writer.Bytes();
}

}  // namespace pergola::formats
