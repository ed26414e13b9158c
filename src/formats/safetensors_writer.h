// Writes one safetensors file; formats/safetensors.h has the layout.
//
//   SafetensorsWriter writer;
//   writer.SetMetadata("format", "pt");
//   PERGOLA_RETURN_IF_ERROR(writer.Add("weight", view));
//   PERGOLA_RETURN_IF_ERROR(writer.Write("model.safetensors"));
//
// The same calls give the same bytes: metadata sorted by key, tensors in the order of Add(), the
// header padded with spaces to a multiple of 8 as the reference does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "formats/byte_sink.h"
#include "pergola/status.h"

namespace pergola::formats {

// Thread-compatible.
class SafetensorsWriter {
 public:
  // Keys and values are UTF-8; a later value replaces an earlier one.
  void SetMetadata(std::string key, std::string value) {
    metadata_[std::move(key)] = std::move(value);
  }

  // The bytes of `tensor` must outlive the writer. INVALID_ARGUMENT for a quantised type
  // (safetensors has none), a name used before, or the reserved name "__metadata__".
  Status Add(std::string name, TensorView tensor);

  // The file as a string.
  std::string Bytes() const;
  // As WriteFileWhole().
  Status Write(const std::string& path) const;

 private:
  struct Entry {
    std::string name;
    TensorView tensor;
  };

  std::string Header() const;
  Status Emit(const ByteSink& sink) const;

  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;
};

}  // namespace pergola::formats
