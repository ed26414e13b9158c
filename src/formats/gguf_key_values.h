// The key-values of a GGUF file as they lie, types and all, for copying into another file.
// TensorSource::metadata() widens them and is what everything else reads.
//
//   PERGOLA_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open("model.gguf"));
//   PERGOLA_ASSIGN_OR_RETURN(auto key_values, ReadGgufKeyValues(file.bytes()));
//   for (const auto& [key, type, payload] : key_values) writer.SetRaw(key, type, payload);
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "formats/gguf_types.h"
#include "pergola/status.h"

namespace pergola::formats {

// Views of the file's bytes.
struct GgufKeyValue {
  std::string_view key;
  GgufValueType type;
  std::string_view payload;  // the value without its type
};

// In the order of the file. Errors as ParseGguf().
Result<std::vector<GgufKeyValue>> ReadGgufKeyValues(std::span<const std::byte> file);

}  // namespace pergola::formats
