// The bytes of a file of results (result_file.h).
//
//   header   8 bytes "PGLRES01", u32 length of the identity, identity, u64 checksum of all before
//   record   u32 length of the payload, u64 checksum of the payload, payload
//   payload  u8 outputs (OutputSet::bits), i32 second_text, u32 ids, u32 spans, the ids (i32), the
//            spans (two i32 each); then for each output, in the order of OutputKind, u32 rows,
//            u32 width, rows * width f32
//
// Little-endian, not aligned; checksums are XXH3 (64 bits), of the payload with its length as seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "scheduler/result_cache.h"
#include "service/inference_service.h"

namespace pergola::scheduler {

using StoredOutput = std::shared_ptr<const service::SequenceOutput>;

std::string HeaderBytes(std::string_view identity);
// Whether a file that begins so may be one of results, of whatever model, perhaps torn at its very
// begin: anything else is somebody's and must not be written over.
bool MayBeResults(std::span<const std::byte> bytes);
std::string RecordBytes(const SequenceKey& key, const service::SequenceOutput& output);

// A payload behind its length and checksum.
std::string FramedPayload(std::string_view payload);

struct StoredRecord {
  SequenceKey key;
  StoredOutput output;
  std::string_view bytes;  // of the whole record, in what was read
  uint64_t checksum = 0;
};

// Calls `take` for each whole record, oldest first. Returns the bytes up to the end of the last
// one, or of the header; 0 when `bytes` does not begin with the header of `identity`. Trusts
// nothing in `bytes`.
size_t ReadRecords(std::span<const std::byte> bytes, std::string_view identity,
                   const std::function<void(StoredRecord record)>& take);

// The checksum in a record that RecordBytes made.
uint64_t ChecksumOf(std::string_view record);

}  // namespace pergola::scheduler
