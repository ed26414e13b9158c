#include "scheduler/result_records.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/byte_reader.h"

namespace pergola::scheduler {
namespace {

using formats::ByteReader;

constexpr std::string_view kMagic = "PGLRES01";
constexpr size_t kRecordHeadBytes = sizeof(uint32_t) + sizeof(uint64_t);

template <typename T>
void AppendValue(T value, std::string* bytes) {
  static_assert(std::is_arithmetic_v<T>);
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void AppendArray(const std::vector<T>& values, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// False when fewer values remain than `count`, before any memory is taken for them.
template <typename T>
bool ReadArray(uint64_t count, ByteReader* reader, std::vector<T>* values) {
  std::string_view bytes;
  if (count > reader->remaining() / sizeof(T)) return false;
  if (!reader->ReadText(count * sizeof(T), &bytes)) return false;
  values->resize(count);
  if (count > 0) std::memcpy(values->data(), bytes.data(), bytes.size());
  return true;
}

uint64_t Checksum(std::string_view bytes) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), bytes.size());
}

bool ReadKey(ByteReader* reader, SequenceKey* key) {
  uint8_t bits = 0;
  uint32_t num_ids = 0;
  uint32_t num_spans = 0;
  if (!reader->Read(&bits) || !reader->Read(&key->sequence.second_text) ||
      !reader->Read(&num_ids) || !reader->Read(&num_spans)) {
    return false;
  }
  if (bits >> kNumOutputKinds != 0) return false;
  for (const OutputKind kind : kOutputKinds) {
    if ((bits >> static_cast<unsigned>(kind) & 1U) != 0) key->outputs.Add(kind);
  }
  return ReadArray(num_ids, reader, &key->sequence.ids) &&
         ReadArray(num_spans, reader, &key->sequence.spans);
}

// False unless the rows are as many as the key wants.
bool ReadOutput(const SequenceKey& key, ByteReader* reader, service::SequenceOutput* output) {
  for (const OutputKind kind : kOutputKinds) {
    if (!key.outputs.Has(kind)) continue;
    uint32_t rows = 0;
    uint32_t width = 0;
    if (!reader->Read(&rows) || !reader->Read(&width)) return false;
    if (rows != key.sequence.rows(kind)) return false;
    service::Rows& read = (*output)[kind];
    read.rows = rows;
    read.width = width;
    if (!ReadArray(uint64_t{rows} * width, reader, &read.values)) return false;
  }
  return reader->remaining() == 0;
}

std::optional<StoredRecord> ReadPayload(std::string_view payload) {
  ByteReader reader(std::as_bytes(std::span(payload)));
  StoredRecord record;
  auto output = std::make_shared<service::SequenceOutput>();
  if (!ReadKey(&reader, &record.key) || !ReadOutput(record.key, &reader, output.get())) {
    return std::nullopt;
  }
  record.output = std::move(output);
  return record;
}

}  // namespace

bool MayBeResults(std::span<const std::byte> bytes) {
  const size_t count = std::min(bytes.size(), kMagic.size());
  return std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                    std::as_bytes(std::span(kMagic)).begin());
}

std::string HeaderBytes(std::string_view identity) {
  std::string bytes(kMagic);
  AppendValue(static_cast<uint32_t>(identity.size()), &bytes);
  bytes += identity;
  AppendValue(Checksum(bytes), &bytes);
  return bytes;
}

std::string FramedPayload(std::string_view payload) {
  std::string record;
  record.reserve(kRecordHeadBytes + payload.size());
  AppendValue(static_cast<uint32_t>(payload.size()), &record);
  AppendValue(Checksum(payload), &record);
  return record += payload;
}

std::string RecordBytes(const SequenceKey& key, const service::SequenceOutput& output) {
  std::string payload;
  payload.reserve(64 + key.sequence.ids.size() * sizeof(int32_t) +
                  key.sequence.spans.size() * sizeof(TokenSpan) + output.values() * sizeof(float));
  AppendValue(key.outputs.bits(), &payload);
  AppendValue(key.sequence.second_text, &payload);
  AppendValue(static_cast<uint32_t>(key.sequence.ids.size()), &payload);
  AppendValue(static_cast<uint32_t>(key.sequence.spans.size()), &payload);
  AppendArray(key.sequence.ids, &payload);
  AppendArray(key.sequence.spans, &payload);
  for (const OutputKind kind : kOutputKinds) {
    if (!key.outputs.Has(kind)) continue;
    AppendValue(static_cast<uint32_t>(output[kind].rows), &payload);
    AppendValue(static_cast<uint32_t>(output[kind].width), &payload);
    AppendArray(output[kind].values, &payload);
  }
  return FramedPayload(payload);
}

uint64_t ChecksumOf(std::string_view record) {
  uint64_t checksum = 0;
  std::memcpy(&checksum, record.data() + sizeof(uint32_t), sizeof checksum);
  return checksum;
}

size_t ReadRecords(std::span<const std::byte> bytes, std::string_view identity,
                   const std::function<void(StoredRecord record)>& take) {
  const std::string header = HeaderBytes(identity);
  ByteReader reader(bytes);
  std::string_view begin;
  if (!reader.ReadText(header.size(), &begin) || begin != header) return 0;
  while (true) {
    const size_t end = reader.position();
    uint32_t payload_bytes = 0;
    uint64_t checksum = 0;
    std::string_view payload;
    if (!reader.Read(&payload_bytes) || !reader.Read(&checksum) ||
        !reader.ReadText(payload_bytes, &payload) || Checksum(payload) != checksum) {
      return end;
    }
    std::optional<StoredRecord> record = ReadPayload(payload);
    if (!record) return end;
    record->bytes = {payload.data() - kRecordHeadBytes, payload.size() + kRecordHeadBytes};
    record->checksum = checksum;
    take(std::move(*record));
  }
}

}  // namespace pergola::scheduler
