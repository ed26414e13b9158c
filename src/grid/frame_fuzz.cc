// Hostile frames: no header may be read out of bounds, no payload decoded beyond its length.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "grid/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pergola::grid;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (bytes.size() < kFrameHeaderBytes) return 0;
  const auto header = ParseFrameHeader(bytes.first(kFrameHeaderBytes));
  if (!header.ok() || header->type == PayloadType::kBytes) return 0;
  const auto payload = bytes.subspan(kFrameHeaderBytes);
  if (payload.size() != header->payload_bytes) return 0;
  std::vector<float> rows(static_cast<size_t>(header->rows) * header->width);
  (void)DecodeRows(*header, payload, pergola::F32Matrix(rows.data(), header->rows, header->width));
  return 0;
}
