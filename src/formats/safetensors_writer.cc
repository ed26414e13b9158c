#include "formats/safetensors_writer.h"

#include <algorithm>
#include <cstring>

#include "formats/quoted.h"

namespace pergola::formats {
namespace {

void AppendJsonString(std::string_view text, std::string* json) {
  constexpr char kHex[] = "0123456789abcdef";
  *json += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      *json += {'\\', c};
    } else if (byte < 0x20) {
      *json += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      *json += c;
    }
  }
  *json += '"';
}

std::string_view BytesOf(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes())};
}

}  // namespace

Status SafetensorsWriter::Add(std::string name, TensorView tensor) {
  if (IsQuantised(tensor.dtype)) {
    return InvalidArgumentError("tensor " + Quoted(name) + ": safetensors has no type " +
                                std::string(DTypeName(tensor.dtype)));
  }
  const bool is_used = std::any_of(entries_.begin(), entries_.end(),
                                   [&](const Entry& entry) { return entry.name == name; });
  if (is_used || name == "__metadata__") {
    return InvalidArgumentError("tensor " + Quoted(name) + ": the name is used or reserved");
  }
  entries_.push_back({std::move(name), tensor});
  return {};
}

std::string SafetensorsWriter::Header() const {
  std::string json = "{";
  if (!metadata_.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata_) {
      if (json.back() != '{') json += ',';
      AppendJsonString(key, &json);
      json += ':';
      AppendJsonString(value, &json);
    }
    json += '}';
  }
  int64_t begin = 0;
  for (const Entry& entry : entries_) {
    const int64_t end = begin + entry.tensor.bytes();
    if (json.back() != '{') json += ',';
    AppendJsonString(entry.name, &json);
    json += ":{\"dtype\":\"" + std::string(DTypeName(entry.tensor.dtype)) +
            "\",\"shape\":" + entry.tensor.shape.ToString() + ",\"data_offsets\":[" +
            std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

Status SafetensorsWriter::Emit(const ByteSink& sink) const {
  const std::string header = Header();
  const uint64_t header_bytes = header.size();
  char length[sizeof(header_bytes)];
  std::memcpy(length, &header_bytes, sizeof(length));
  PERGOLA_RETURN_IF_ERROR(sink({length, sizeof(length)}));
  PERGOLA_RETURN_IF_ERROR(sink(header));
  for (const Entry& entry : entries_) PERGOLA_RETURN_IF_ERROR(sink(BytesOf(entry.tensor)));
  return {};
}

std::string SafetensorsWriter::Bytes() const {
  std::string bytes;
  // Appending to a string cannot fail.
  static_cast<void>(Emit([&bytes](std::string_view part) {
    bytes += part;
    return OkStatus();
  }));
  return bytes;
}

Status SafetensorsWriter::Write(const std::string& path) const {
  return WriteFileWhole(path, [this](const ByteSink& sink) { return Emit(sink); });
}

}  // namespace pergola::formats
