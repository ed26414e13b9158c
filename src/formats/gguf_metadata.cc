#include "formats/gguf_metadata.h"

#include <limits>

#include "formats/gguf_types.h"

namespace pergola::formats {
namespace {

using Type = GgufValueType;

// Of the arrays of one file, all together. The largest vocabularies have 2^18 strings; an i8
// becomes 8 bytes here, a bool, f64 or array 40.
constexpr uint64_t kMaxElements = uint64_t{1} << 26;
constexpr uint64_t kMaxBoxedElements = uint64_t{1} << 20;
constexpr int kMaxArrayDepth = 8;
constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// Fewest bytes a value of the type takes in a file; 0 for a number that is no type.
uint64_t MinBytes(uint32_t type) {
  switch (static_cast<Type>(type)) {
    case Type::kUint8:
    case Type::kInt8:
    case Type::kBool:
      return 1;
    case Type::kUint16:
    case Type::kInt16:
      return 2;
    case Type::kUint32:
    case Type::kInt32:
    case Type::kFloat32:
      return 4;
    case Type::kUint64:
    case Type::kInt64:
    case Type::kFloat64:
    case Type::kString:
      return 8;
    case Type::kArray:
      return 12;
  }
  return 0;
}

std::string At(uint64_t offset) { return " at offset " + std::to_string(offset); }

Status UnknownType(uint32_t type, uint64_t offset) {
  return InvalidArgumentError("value type " + std::to_string(type) + At(offset) + " is unknown");
}

}  // namespace

Status GgufMetadataReader::Truncated(const char* what) const {
  return DataLossError(std::string(what) + At(reader_->position()) + " ends beyond the file of " +
                       std::to_string(reader_->position() + reader_->remaining()) + " bytes");
}

Result<std::string_view> GgufMetadataReader::ReadString() {
  uint64_t size;
  std::string_view text;
  if (!reader_->Read(&size)) return Truncated("string length");
  if (!reader_->ReadText(size, &text)) {
    return Truncated(("string of " + std::to_string(size) + " bytes").c_str());
  }
  return text;
}

Status GgufMetadataReader::ReadValue(MetadataValue* value) {
  uint32_t type;
  if (!reader_->Read(&type)) return Truncated("value type");
  last_was_uint32_ = type == static_cast<uint32_t>(Type::kUint32);
  return ReadOfType(type, 0, value);
}

Status GgufMetadataReader::ReadOfType(uint32_t type, int depth, MetadataValue* value) {
  switch (static_cast<Type>(type)) {
    case Type::kUint8:
      return ReadNumber<uint8_t>(value);
    case Type::kInt8:
      return ReadNumber<int8_t>(value);
    case Type::kUint16:
      return ReadNumber<uint16_t>(value);
    case Type::kInt16:
      return ReadNumber<int16_t>(value);
    case Type::kUint32:
      return ReadNumber<uint32_t>(value);
    case Type::kInt32:
      return ReadNumber<int32_t>(value);
    case Type::kUint64:
      return ReadNumber<uint64_t>(value);
    case Type::kInt64:
      return ReadNumber<int64_t>(value);
    case Type::kFloat32:
      return ReadNumber<float>(value);
    case Type::kFloat64:
      return ReadNumber<double>(value);
    case Type::kBool:
      return ReadBool(value);
    case Type::kArray:
      return ReadArray(depth, value);
    case Type::kString: {
      PERGOLA_ASSIGN_OR_RETURN(const std::string_view text, ReadString());
      value->value = text;
      return {};
    }
  }
  return UnknownType(type, reader_->position() - sizeof(type));
}

template <typename T>
Status GgufMetadataReader::ReadNumber(MetadataValue* value) {
  T number;
  if (!reader_->Read(&number)) return Truncated("number");
  if constexpr (std::is_floating_point_v<T>) {
    value->value = static_cast<double>(number);
  } else if (static_cast<uint64_t>(number) > kMaxInt64 && std::is_same_v<T, uint64_t>) {
    value->value = static_cast<uint64_t>(number);
  } else {
    value->value = static_cast<int64_t>(number);
  }
  return {};
}

Status GgufMetadataReader::ReadBool(MetadataValue* value) {
  uint8_t byte;
  if (!reader_->Read(&byte)) return Truncated("bool");
  if (byte > 1) {
    return InvalidArgumentError("bool" + At(reader_->position() - 1) + " is " +
                                std::to_string(byte) + ", expected 0 or 1");
  }
  value->value = byte == 1;
  return {};
}

Status GgufMetadataReader::CheckCount(uint32_t type, uint64_t count) {
  const uint64_t start = reader_->position() - 12;
  const std::string what = "array of " + std::to_string(count) + " values" + At(start);
  const uint64_t min_bytes = MinBytes(type);
  if (min_bytes == 0) return UnknownType(type, start);
  if (count > reader_->remaining() / min_bytes) {
    return DataLossError(what + " ends beyond the file of " +
                         std::to_string(reader_->position() + reader_->remaining()) + " bytes");
  }
  if (count > kMaxElements - elements_) {
    return ResourceExhaustedError(what + ": more than " + std::to_string(kMaxElements) +
                                  " array elements in the file");
  }
  elements_ += count;
  return {};
}

Status GgufMetadataReader::ReadArray(int depth, MetadataValue* value) {
  const uint64_t start = reader_->position();
  if (depth == kMaxArrayDepth) {
    return ResourceExhaustedError("array" + At(start) + " is nested deeper than " +
                                  std::to_string(kMaxArrayDepth));
  }
  uint32_t type;
  uint64_t count;
  if (!reader_->Read(&type) || !reader_->Read(&count)) return Truncated("array");
  PERGOLA_RETURN_IF_ERROR(CheckCount(type, count));
  switch (static_cast<Type>(type)) {
    case Type::kUint8:
      return ReadIntArray<uint8_t>(count, value);
    case Type::kInt8:
      return ReadIntArray<int8_t>(count, value);
    case Type::kUint16:
      return ReadIntArray<uint16_t>(count, value);
    case Type::kInt16:
      return ReadIntArray<int16_t>(count, value);
    case Type::kUint32:
      return ReadIntArray<uint32_t>(count, value);
    case Type::kInt32:
      return ReadIntArray<int32_t>(count, value);
    case Type::kInt64:
      return ReadIntArray<int64_t>(count, value);
    case Type::kUint64:
      return ReadUint64Array(count, value);
    case Type::kFloat32:
      return ReadFloatArray(count, value);
    case Type::kString:
      return ReadStringArray(count, value);
    case Type::kBool:
    case Type::kFloat64:
    case Type::kArray:
      break;
  }
  return ReadBoxedArray(type, count, depth, value);
}

template <typename T>
Status GgufMetadataReader::ReadIntArray(uint64_t count, MetadataValue* value) {
  for (int64_t& number : value->value.emplace<std::vector<int64_t>>(count)) {
    T stored;
    if (!reader_->Read(&stored)) return Truncated("array");
    number = static_cast<int64_t>(stored);
  }
  return {};
}

Status GgufMetadataReader::ReadUint64Array(uint64_t count, MetadataValue* value) {
  ByteReader probe = *reader_;
  bool fits = true;
  for (uint64_t i = 0, number = 0; i < count && probe.Read(&number); ++i) {
    fits = fits && number <= kMaxInt64;
  }
  if (fits) return ReadIntArray<uint64_t>(count, value);
  return ReadBoxedArray(static_cast<uint32_t>(Type::kUint64), count, 0, value);
}

Status GgufMetadataReader::ReadFloatArray(uint64_t count, MetadataValue* value) {
  for (float& number : value->value.emplace<std::vector<float>>(count)) {
    if (!reader_->Read(&number)) return Truncated("array");
  }
  return {};
}

Status GgufMetadataReader::ReadStringArray(uint64_t count, MetadataValue* value) {
  for (std::string_view& text : value->value.emplace<std::vector<std::string_view>>(count)) {
    uint64_t size;
    if (!reader_->Read(&size)) return Truncated("string length");
    if (!reader_->ReadText(size, &text)) {
      return Truncated(("string of " + std::to_string(size) + " bytes").c_str());
    }
  }
  return {};
}

Status GgufMetadataReader::ReadBoxedArray(uint32_t type, uint64_t count, int depth,
                                          MetadataValue* value) {
  if (count > kMaxBoxedElements - boxed_elements_) {
    return ResourceExhaustedError("array of " + std::to_string(count) + " values" +
                                  At(reader_->position() - 12) + ": more than " +
                                  std::to_string(kMaxBoxedElements) +
                                  " array elements of this type in the file");
  }
  boxed_elements_ += count;
  for (MetadataValue& item : value->value.emplace<MetadataArray>(count)) {
    PERGOLA_RETURN_IF_ERROR(ReadOfType(type, depth + 1, &item));
  }
  return {};
}

}  // namespace pergola::formats
