#include "formats/gguf_writer.h"

#include <algorithm>
#include <bit>

#include "core/check.h"
#include "formats/quoted.h"

namespace pergola::formats {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendString(std::string_view text, std::string* bytes) {
  Append<uint64_t>(text.size(), bytes);
  *bytes += text;
}

template <typename T>
std::string_view RawBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <typename T>
std::string ArrayPayload(GgufValueType type, std::span<const T> values) {
  std::string payload;
  Append(static_cast<uint32_t>(type), &payload);
  Append<uint64_t>(values.size(), &payload);
  for (const T& value : values) Append(value, &payload);
  return payload;
}

}  // namespace

void GgufWriter::SetRaw(std::string_view key, GgufValueType type, std::string_view payload) {
  PERGOLA_CHECK(std::find(keys_.begin(), keys_.end(), key) == keys_.end());
  keys_.emplace_back(key);
  AppendString(key, &key_values_);
  Append(static_cast<uint32_t>(type), &key_values_);
  key_values_ += payload;
}

void GgufWriter::SetUint32(std::string_view key, uint32_t value) {
  SetRaw(key, GgufValueType::kUint32, RawBytes(value));
}
void GgufWriter::SetInt32(std::string_view key, int32_t value) {
  SetRaw(key, GgufValueType::kInt32, RawBytes(value));
}
void GgufWriter::SetUint64(std::string_view key, uint64_t value) {
  SetRaw(key, GgufValueType::kUint64, RawBytes(value));
}
void GgufWriter::SetFloat32(std::string_view key, float value) {
  SetRaw(key, GgufValueType::kFloat32, RawBytes(value));
}
void GgufWriter::SetBool(std::string_view key, bool value) {
  SetRaw(key, GgufValueType::kBool, RawBytes(static_cast<uint8_t>(value)));
}
void GgufWriter::SetString(std::string_view key, std::string_view value) {
  std::string payload;
  AppendString(value, &payload);
  SetRaw(key, GgufValueType::kString, payload);
}
void GgufWriter::SetStrings(std::string_view key, std::span<const std::string> values) {
  std::string payload;
  Append(static_cast<uint32_t>(GgufValueType::kString), &payload);
  Append<uint64_t>(values.size(), &payload);
  for (const std::string& value : values) AppendString(value, &payload);
  SetRaw(key, GgufValueType::kArray, payload);
}
void GgufWriter::SetInt32s(std::string_view key, std::span<const int32_t> values) {
  SetRaw(key, GgufValueType::kArray, ArrayPayload(GgufValueType::kInt32, values));
}
void GgufWriter::SetFloat32s(std::string_view key, std::span<const float> values) {
  SetRaw(key, GgufValueType::kArray, ArrayPayload(GgufValueType::kFloat32, values));
}

void GgufWriter::SetBytes(std::string_view key, std::string_view values) {
  SetRaw(key, GgufValueType::kArray,
         ArrayPayload(GgufValueType::kUint8, std::span<const char>(values)));
}

void GgufWriter::SetAlignment(uint32_t alignment) {
  PERGOLA_CHECK(std::has_single_bit(alignment));
  SetUint32(kGgufAlignmentKey, alignment);
  alignment_ = alignment;
}

Status GgufWriter::Add(std::string name, TensorView tensor) {
  if (std::any_of(entries_.begin(), entries_.end(),
                  [&](const Entry& entry) { return entry.name == name; })) {
    return InvalidArgumentError("tensor " + Quoted(name) + ": the name is there twice");
  }
  entries_.push_back({std::move(name), tensor});
  return {};
}

std::string GgufWriter::Padding(uint64_t position) const {
  return std::string((alignment_ - position % alignment_) % alignment_, '\0');
}

std::string GgufWriter::Header() const {
  std::string header(kGgufMagic, sizeof(kGgufMagic));
  Append(kGgufVersion, &header);
  Append<uint64_t>(entries_.size(), &header);
  Append<uint64_t>(keys_.size(), &header);
  header += key_values_;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : entries_) {
    AppendString(name, &header);
    Append(static_cast<uint32_t>(tensor.shape.rank), &header);
    for (int axis = tensor.shape.rank - 1; axis >= 0; --axis) {
      Append<uint64_t>(static_cast<uint64_t>(tensor.shape[axis]), &header);
    }
    Append(GgufTypeNumber(tensor.dtype), &header);
    Append(offset, &header);
    offset += static_cast<uint64_t>(tensor.bytes());
    offset += Padding(offset).size();
  }
  return header + Padding(header.size());
}

Status GgufWriter::Emit(const ByteSink& sink) const {
  PERGOLA_RETURN_IF_ERROR(sink(Header()));
  for (const auto& [name, tensor] : entries_) {
    const auto size = static_cast<size_t>(tensor.bytes());
    PERGOLA_RETURN_IF_ERROR(sink({reinterpret_cast<const char*>(tensor.data), size}));
    PERGOLA_RETURN_IF_ERROR(sink(Padding(size)));
  }
  return {};
}

std::string GgufWriter::Bytes() const {
  std::string bytes;
  // Appending to a string cannot fail.
  static_cast<void>(Emit([&bytes](std::string_view part) {
    bytes += part;
    return OkStatus();
  }));
  return bytes;
}

Status GgufWriter::Write(const std::string& path) const {
  return WriteFileWhole(path, [this](const ByteSink& sink) { return Emit(sink); });
}

}  // namespace pergola::formats
