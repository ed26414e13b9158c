// Writes one GGUF file, version 3; formats/gguf.h has the layout.
//
//   GgufWriter writer;
//   writer.SetString("general.architecture", "bert");
//   writer.SetUint32("bert.block_count", 6);
//   PERGOLA_RETURN_IF_ERROR(writer.Add("token_embd.weight", view));
//   PERGOLA_RETURN_IF_ERROR(writer.Write("model.gguf"));
//
// The same calls give the same bytes. Each value is written with the type its setter names, since
// readers of GGUF are particular about it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "formats/byte_sink.h"
#include "formats/gguf_types.h"
#include "pergola/status.h"

namespace pergola::formats {

// Thread-compatible. Keys are written in the order of the calls; a key is the caller's to use once
// (PERGOLA_CHECK).
class GgufWriter {
 public:
  void SetUint32(std::string_view key, uint32_t value);
  void SetInt32(std::string_view key, int32_t value);
  void SetUint64(std::string_view key, uint64_t value);
  void SetFloat32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetStrings(std::string_view key, std::span<const std::string> values);
  void SetInt32s(std::string_view key, std::span<const int32_t> values);
  void SetFloat32s(std::string_view key, std::span<const float> values);
  // An array of uint8.
  void SetBytes(std::string_view key, std::string_view values);
  // `payload`: the value's bytes as the format has them, for copying and for types not above.
  void SetRaw(std::string_view key, GgufValueType type, std::string_view payload);

  // Also writes `general.alignment`; a power of two (PERGOLA_CHECK). 32 otherwise.
  void SetAlignment(uint32_t alignment);

  // The bytes of `tensor` must outlive the writer. INVALID_ARGUMENT for a name used before.
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
  std::string Padding(uint64_t position) const;
  Status Emit(const ByteSink& sink) const;

  std::vector<std::string> keys_;
  std::string key_values_;  // as in the file
  std::vector<Entry> entries_;
  uint64_t alignment_ = kGgufDefaultAlignment;
};

}  // namespace pergola::formats
