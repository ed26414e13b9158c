#include "rpc/status.h"

#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

namespace pergola::rpc {
namespace {

constexpr size_t kMaxMessageBytes = 1000;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Bytes of the character that begins `text`, 0 when it is none. Overlong forms and surrogates count
// as characters: whoever renders the message checks again.
size_t CharacterBytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xC2 && first < 0xE0 ? 2
                       : first >= 0xE0 && first < 0xF0 ? 3
                       : first >= 0xF0 && first < 0xF5 ? 4
                                                       : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  return bytes;
}

std::string Readable(std::string_view text) {
  std::string readable;
  while (!text.empty() && readable.size() < kMaxMessageBytes) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) {
      readable += '?';
      text.remove_prefix(1);
      continue;
    }
    if (readable.size() + bytes > kMaxMessageBytes) break;
    readable.append(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return readable;
}

}  // namespace

grpc::Status ToGrpcStatus(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), Readable(status.message())};
}

Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  const int number = status.error_code();
  const bool known = number > 0 && number <= static_cast<int>(StatusCode::kUnauthenticated);
  return {known ? static_cast<StatusCode>(number) : StatusCode::kUnknown,
          Readable(status.error_message())};
}

}  // namespace pergola::rpc
