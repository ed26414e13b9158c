// The key-values of a GGUF file.
#pragma once

#include "formats/byte_reader.h"
#include "formats/tensor_source.h"
#include "pergola/status.h"

namespace pergola::formats {

// Reads values one after the other; keeps count of what they cost, so that a hostile file cannot
// make small bytes into large memory. Strings are views of the reader's bytes. Thread-confined.
class GgufMetadataReader {
 public:
  explicit GgufMetadataReader(ByteReader* reader) : reader_(reader) {}

  // A string of the file. DATA_LOSS when it ends beyond the file.
  Result<std::string_view> ReadString();

  // A u32 type and a value of that type into `*value`. Messages hold the offset, not the key.
  Status ReadValue(MetadataValue* value);

  // Whether the value read last was a u32: the only type allowed for `general.alignment`.
  bool last_was_uint32() const { return last_was_uint32_; }

 private:
  Status Truncated(const char* what) const;
  Status CheckCount(uint32_t type, uint64_t count);
  Status ReadOfType(uint32_t type, int depth, MetadataValue* value);
  template <typename T>
  Status ReadNumber(MetadataValue* value);
  Status ReadBool(MetadataValue* value);
  Status ReadArray(int depth, MetadataValue* value);
  template <typename T>
  Status ReadIntArray(uint64_t count, MetadataValue* value);
  Status ReadUint64Array(uint64_t count, MetadataValue* value);
  Status ReadFloatArray(uint64_t count, MetadataValue* value);
  Status ReadStringArray(uint64_t count, MetadataValue* value);
  Status ReadBoxedArray(uint32_t type, uint64_t count, int depth, MetadataValue* value);

  ByteReader* reader_;  // must outlive this
  uint64_t elements_ = 0;
  uint64_t boxed_elements_ = 0;
  bool last_was_uint32_ = false;
};

}  // namespace pergola::formats
