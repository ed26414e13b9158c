// libFuzzer target: any bytes as a payload with a good checksum, and as what lies behind a header.
// Run it on tests/fuzz/corpus/result_records.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/check.h"
#include "scheduler/result_records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pergola::scheduler::ReadRecords;
  const auto check = [](const pergola::scheduler::StoredRecord& record) {
    PERGOLA_CHECK(pergola::scheduler::RecordBytes(record.key, *record.output) == record.bytes);
  };
  const std::string input(data, data + size);
  const std::string header = pergola::scheduler::HeaderBytes("fuzz");
  for (const std::string& bytes :
       {header + pergola::scheduler::FramedPayload(input), header + input}) {
    const size_t end = ReadRecords(std::as_bytes(std::span(bytes)), "fuzz", check);
    PERGOLA_CHECK(end >= header.size() && end <= bytes.size());
  }
  return 0;
}
