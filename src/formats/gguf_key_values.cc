#include "formats/gguf_key_values.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "formats/byte_reader.h"
#include "formats/gguf.h"
#include "formats/gguf_metadata.h"
#include "formats/quoted.h"

namespace pergola::formats {

Result<std::vector<GgufKeyValue>> ReadGgufKeyValues(std::span<const std::byte> file) {
  ByteReader reader(file);
  GgufMetadataReader metadata(&reader);
  std::string_view magic;
  uint32_t version = 0;
  uint64_t num_tensors = 0, num_key_values = 0;
  if (!LooksLikeGguf(file) || !reader.ReadText(sizeof(kGgufMagic), &magic) ||
      !reader.Read(&version) || !reader.Read(&num_tensors) || !reader.Read(&num_key_values)) {
    return DataLossError("the file has no whole GGUF header");
  }
  std::vector<GgufKeyValue> key_values;
  for (uint64_t index = 0; index < num_key_values; ++index) {
    PERGOLA_ASSIGN_OR_RETURN(const std::string_view key, metadata.ReadString());
    const uint64_t start = reader.position();
    MetadataValue value;
    const Status status = metadata.ReadValue(&value);
    if (!status.ok()) return status.WithContext("metadata key " + Quoted(key));
    uint32_t type = 0;
    std::memcpy(&type, file.data() + start, sizeof(type));
    const uint64_t begin = start + sizeof(type);
    key_values.push_back({key,
                          static_cast<GgufValueType>(type),
                          {reinterpret_cast<const char*>(file.data()) + begin,
                           static_cast<size_t>(reader.position() - begin)}});
  }
  return key_values;
}

}  // namespace pergola::formats
