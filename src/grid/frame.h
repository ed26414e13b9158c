// The frames in which parts of a split model talk: docs/formats/frame.md has the layout.
//
//   std::string frame;
//   PERGOLA_RETURN_IF_ERROR(AppendRowsFrame(header, x, &frame));       // and send it
//   PERGOLA_ASSIGN_OR_RETURN(FrameHeader header, ParseFrameHeader(bytes));
//   PERGOLA_RETURN_IF_ERROR(DecodeRows(header, payload, y));
//
// Pure functions of bytes; frame_connection.h moves them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "pergola/status.h"

namespace pergola::grid {

inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxKeyBytes = 4096;  // the payload of a `stats` request

enum class FrameKind : uint8_t {
  kStats = 1,
  kEmbed = 2,
  kFfn = 3,
  kLogits = 4,
  kTop = 5,
  kEncode = 6,
  kDecode = 7,
  kError = 15
};

// Bits of FrameHeader::argument of texts.
inline constexpr uint32_t kAddSpecialTokens = 1;   // kEncode
inline constexpr uint32_t kSkipSpecialTokens = 1;  // kDecode
inline constexpr uint32_t kDecodeEach = 2;         // kDecode: every id alone

enum class PayloadType : uint8_t { kBytes = 0, kF32 = 1, kBF16 = 2, kI8 = 3 };

// "bytes", "f32", "bf16", "i8".
std::string_view PayloadTypeName(PayloadType type);

using ShortIdentity = std::array<std::byte, 16>;
// The first 16 bytes of 64 hexadecimal digits.
ShortIdentity ShortIdentityOf(std::string_view hex);

struct FrameHeader {
  FrameKind kind = FrameKind::kStats;
  bool answer = false;
  PayloadType type = PayloadType::kBytes;
  ShortIdentity identity = {};
  uint64_t request_id = 0;
  uint32_t argument = 0;  // layer, number of tokens, or bits
  uint32_t rows = 0;
  uint32_t width = 0;
  uint32_t time = 0;  // request: deadline in ms; answer: microseconds of computing
  uint64_t payload_bytes = 0;
  uint32_t payload_crc = 0;
};

// Appends header and payload; sets length and checksums.
void AppendBytesFrame(FrameHeader header, std::string_view payload, std::string* out);
// The same of rows of header.type (not kBytes). INVALID_ARGUMENT for a value that is not finite or
// that the type cannot carry; `out` is then as before.
Status AppendRowsFrame(FrameHeader header, ConstF32Matrix rows, std::string* out);

// Makes `out` a frame of f32 rows that `fill` writes where they are sent from, all of them and all
// finite, with the payload_crc of these rows, and a time if it likes: its promise. Its error is
// returned. What `out` held counts for nothing, but where that was as long no memory is cleared.
Status FillFrame(FrameHeader header, int64_t rows, int64_t width,
                 const std::function<Status(F32Matrix, FrameHeader&)>& fill, std::string* out);

// INVALID_ARGUMENT or DATA_LOSS naming the field that is wrong; `bytes` has kFrameHeaderBytes.
Result<FrameHeader> ParseFrameHeader(std::span<const std::byte> bytes);
// DATA_LOSS when the checksum is wrong.
Status CheckPayload(const FrameHeader& header, std::span<const std::byte> payload);
// `rows` has the header's rows and width. INVALID_ARGUMENT for a value that is not finite or a
// length that is not exact.
Status DecodeRows(const FrameHeader& header, std::span<const std::byte> payload, F32Matrix rows);

// Bytes of `rows` rows of `width` values.
uint64_t RowsBytes(PayloadType type, uint64_t rows, uint64_t width);

}  // namespace pergola::grid
