#include "gateway/response_body.h"

#include <charconv>

namespace pergola::gateway {
namespace {

constexpr size_t kGzipFromBytes = 1024;  // answers up to this are sent plain

std::string HexLine(size_t number) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number, 16);
  static_cast<void>(error);
  return std::string(digits, end) + "\r\n";
}

}  // namespace

bool HasNoBody(int status) { return status == 204 || status == 304; }

bool IsCompressible(const HttpResponse& response) {
  if (HasNoBody(response.status) || response.content_type == "application/octet-stream") {
    return false;
  }
  for (const HttpHeader& header : response.headers) {
    if (header.name == "content-encoding") return false;
  }
  return response.next_chunk || response.body.size() > kGzipFromBytes;
}

void FrameChunk(bool last, std::string* head, std::string* piece) {
  if (!piece->empty()) {
    head->append(HexLine(piece->size()));
    piece->append("\r\n");
  }
  if (last) piece->append("0\r\n\r\n");
}

}  // namespace pergola::gateway
