// The seam between files and models: named tensors and metadata, wherever they come from.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto source, formats::OpenTensorSource("model.gguf"));
//   PERGOLA_ASSIGN_OR_RETURN(TensorView table, source->Get("token_embd.weight"));
//
// Implementations: safetensors (single, sharded), GGUF, slices, in-memory; each passes the
// conformance suite in tests/conformance. Opening checks every length, offset, count and shape, so
// that a TensorView handed out lies wholly inside the mapping. Bytes are not read until used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::formats {

struct MetadataValue;
using MetadataArray = std::vector<MetadataValue>;

// A metadata value of any GGUF type; safetensors has strings only. Integers of every width are
// widened to int64 or (only uint64 above 2^63 - 1) uint64; f32 is widened to double. Large arrays
// of strings and of numbers stay compact: a vocabulary of 262,144 strings is views into the
// mapping, not copies. Arrays of bool, f64, arrays, and of uint64 with a value above 2^63 - 1 are a
// MetadataArray.
struct MetadataValue {
  std::variant<bool, int64_t, uint64_t, double, std::string_view, std::vector<std::string_view>,
               std::vector<int64_t>, std::vector<float>, MetadataArray>
      value;
};

struct TensorInfo {
  std::string name;
  TensorView view;       // bytes inside the source's mapping; shape outermost first
  uint64_t file_offset;  // of the first byte, in its file
  uint32_t file_index;   // into files()
};

// A tensor of a type that Pergola does not compute with (BERT's I64 `position_ids`, a GGUF type it
// does not know): listed, so that the rest of the file can be used; Get() of it is an error.
struct UnsupportedTensor {
  std::string name;
  std::string type;  // as the file calls it: "I64", "type 39"
  Shape shape;
  uint64_t file_offset;
  uint64_t bytes;  // 0 when the size of the type is not known
  uint32_t file_index;
};

// Immutable after opening and thread-safe. Views and string_views live as long as the source.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // "safetensors", "gguf", "slice" or "memory".
  virtual std::string_view format() const = 0;
  // Paths of the mapped files, in shard order.
  virtual std::span<const std::string> files() const = 0;
  // All tensors of supported types, in file order.
  virtual std::span<const TensorInfo> tensors() const = 0;
  // The others, in file order. No name is in both.
  virtual std::span<const UnsupportedTensor> unsupported() const { return {}; }
  // Sorted by key. GGUF key-values; safetensors `__metadata__`.
  virtual const std::map<std::string, MetadataValue, std::less<>>& metadata() const = 0;

  // Null when there is none of a supported type. O(log n) or better.
  virtual const TensorInfo* Find(std::string_view name) const = 0;

  // NOT_FOUND naming the tensor and the file; UNIMPLEMENTED naming the type when it is
  // unsupported().
  virtual Result<TensorView> Get(std::string_view name) const;
  // As Get, and INVALID_ARGUMENT naming the tensor, expected and found shape when they differ.
  Result<TensorView> Get(std::string_view name, const Shape& expected) const;

  // Typed metadata; nullopt when absent or of another type (integers and floats do not convert into
  // each other, bool is not an integer).
  std::optional<int64_t> GetInt(std::string_view key) const;
  std::optional<double> GetFloat(std::string_view key) const;
  std::optional<bool> GetBool(std::string_view key) const;
  std::optional<std::string_view> GetString(std::string_view key) const;
  // Null when absent or of another type.
  const std::vector<std::string_view>* GetStrings(std::string_view key) const;
  const std::vector<int64_t>* GetInts(std::string_view key) const;
  const std::vector<float>* GetFloats(std::string_view key) const;
};

// A GGUF file (of a split model: the first one), a safetensors file, or a directory with
// `model.safetensors` or `model.safetensors.index.json`, or a slice (slice.h). Files are told apart
// by content, not by name. NOT_FOUND; INVALID_ARGUMENT (the file contradicts its format), DATA_LOSS
// (it ends too early) or UNIMPLEMENTED (a format feature we lack) naming file, tensor and offset.
Result<std::unique_ptr<TensorSource>> OpenTensorSource(const std::string& path);

}  // namespace pergola::formats
