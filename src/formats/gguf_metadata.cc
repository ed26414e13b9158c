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

Result<MetadataValue> GgufMetadataReader::ReadValue() {
  uint32_t type;
  if (!reader_->Read(&type)) return Truncated("value type");
  last_was_uint32_ = type == static_cast<uint32_t>(Type::kUint32);
  return ReadOfType(type, 0);
}

Result<MetadataValue> GgufMetadataReader::ReadOfType(uint32_t type, int depth) {
  switch (static_cast<Type>(type)) {
    case Type::kUint8:
      return ReadNumber<uint8_t>();
    case Type::kInt8:
      return ReadNumber<int8_t>();
    case Type::kUint16:
      return ReadNumber<uint16_t>();
    case Type::kInt16:
      return ReadNumber<int16_t>();
    case Type::kUint32:
      return ReadNumber<uint32_t>();
    case Type::kInt32:
      return ReadNumber<int32_t>();
    case Type::kUint64:
      return ReadNumber<uint64_t>();
    case Type::kInt64:
      return ReadNumber<int64_t>();
    case Type::kFloat32:
      return ReadNumber<float>();
    case Type::kFloat64:
      return ReadNumber<double>();
    case Type::kBool:
      return ReadBool();
    case Type::kArray:
      return ReadArray(depth);
    case Type::kString: {
      PERGOLA_ASSIGN_OR_RETURN(const std::string_view text, ReadString());
      return MetadataValue{text};
    }
  }
  return UnknownType(type, reader_->position() - sizeof(type));
}

template <typename T>
Result<MetadataValue> GgufMetadataReader::ReadNumber() {
  T number;
  if (!reader_->Read(&number)) return Truncated("number");
  if constexpr (std::is_floating_point_v<T>) return MetadataValue{static_cast<double>(number)};
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return MetadataValue{number};
    }
  }
  return MetadataValue{static_cast<int64_t>(number)};
}

Result<MetadataValue> GgufMetadataReader::ReadBool() {
  uint8_t byte;
  if (!reader_->Read(&byte)) return Truncated("bool");
  if (byte > 1) {
    return InvalidArgumentError("bool" + At(reader_->position() - 1) + " is " +
                                std::to_string(byte) + ", expected 0 or 1");
  }
  return MetadataValue{byte == 1};
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

Result<MetadataValue> GgufMetadataReader::ReadArray(int depth) {
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
      return ReadIntArray<uint8_t>(count);
    case Type::kInt8:
      return ReadIntArray<int8_t>(count);
    case Type::kUint16:
      return ReadIntArray<uint16_t>(count);
    case Type::kInt16:
      return ReadIntArray<int16_t>(count);
    case Type::kUint32:
      return ReadIntArray<uint32_t>(count);
    case Type::kInt32:
      return ReadIntArray<int32_t>(count);
    case Type::kInt64:
      return ReadIntArray<int64_t>(count);
    case Type::kUint64:
      return ReadUint64Array(count);
    case Type::kFloat32:
      return ReadFloatArray(count);
    case Type::kString:
      return ReadStringArray(count);
    case Type::kBool:
    case Type::kFloat64:
    case Type::kArray:
      break;
  }
  return ReadBoxedArray(type, count, depth);
}

template <typename T>
Result<MetadataValue> GgufMetadataReader::ReadIntArray(uint64_t count) {
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) {
    T value;
    if (!reader_->Read(&value)) return Truncated("array");
    number = value;
  }
  return MetadataValue{std::move(numbers)};
}

Result<MetadataValue> GgufMetadataReader::ReadUint64Array(uint64_t count) {
  ByteReader probe = *reader_;
  bool fits = true;
  for (uint64_t i = 0, value = 0; i < count && probe.Read(&value); ++i) {
    fits = fits && value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  }
  if (fits) return ReadIntArray<uint64_t>(count);
  return ReadBoxedArray(static_cast<uint32_t>(Type::kUint64), count, 0);
}

Result<MetadataValue> GgufMetadataReader::ReadFloatArray(uint64_t count) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    if (!reader_->Read(&number)) return Truncated("array");
  }
  return MetadataValue{std::move(numbers)};
}

Result<MetadataValue> GgufMetadataReader::ReadStringArray(uint64_t count) {
  std::vector<std::string_view> texts(count);
  for (std::string_view& text : texts) {
    uint64_t size;
    if (!reader_->Read(&size)) return Truncated("string length");
    if (!reader_->ReadText(size, &text)) {
      return Truncated(("string of " + std::to_string(size) + " bytes").c_str());
    }
  }
  return MetadataValue{std::move(texts)};
}

Result<MetadataValue> GgufMetadataReader::ReadBoxedArray(uint32_t type, uint64_t count, int depth) {
  if (count > kMaxBoxedElements - boxed_elements_) {
    return ResourceExhaustedError("array of " + std::to_string(count) + " values" +
                                  At(reader_->position() - 12) + ": more than " +
                                  std::to_string(kMaxBoxedElements) +
                                  " array elements of this type in the file");
  }
  boxed_elements_ += count;
  MetadataArray values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    PERGOLA_ASSIGN_OR_RETURN(MetadataValue value, ReadOfType(type, depth + 1));
    values.push_back(std::move(value));
  }
  return MetadataValue{std::move(values)};
}

}  // namespace pergola::formats
