#include "grid/frame.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/finite.h"
#include "kernels/checksum.h"

namespace pergola::grid {
namespace {

constexpr uint32_t kMagic = 0x464C4750;
constexpr uint8_t kVersion = 1;
constexpr uint8_t kAnswerBit = 128;
constexpr int64_t kGroup = 32;  // values that share a scale in i8

template <typename T>
void Put(T value, size_t offset, std::byte* header) {
  std::memcpy(header + offset, &value, sizeof(T));
}

template <typename T>
T Take(std::span<const std::byte> header, size_t offset) {
  T value;
  std::memcpy(&value, header.data() + offset, sizeof(T));
  return value;
}

uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

Status NotFinite(std::string_view what) {
  return InvalidArgumentError("a row holds a value that " + std::string(what));
}

// Rows of one type at `out`, which has room. Every value is finite.
Status EncodeRow(PayloadType type, const float* row, int64_t width, std::byte* out) {
  if (type == PayloadType::kF32) {
    std::memcpy(out, row, static_cast<size_t>(width) * sizeof(float));
    return OkStatus();
  }
  if (type == PayloadType::kBF16) {
    for (int64_t i = 0; i < width; ++i) {
      const uint16_t bits = ToBf16(row[i]);
      if (!std::isfinite(FromBf16(bits))) return NotFinite("bf16 cannot carry");
      std::memcpy(out + i * 2, &bits, 2);
    }
    return OkStatus();
  }
  for (int64_t begin = 0; begin < width; begin += kGroup) {
    const int64_t count = std::min(kGroup, width - begin);
    float largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(row[begin + i]));
    const float scale = largest / 127.0f;
    std::memcpy(out, &scale, sizeof scale);
    out += sizeof scale;
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (int64_t i = 0; i < count; ++i) {
      const float scaled = std::clamp(row[begin + i] * inverse, -127.0f, 127.0f);
      *out++ = static_cast<std::byte>(static_cast<int8_t>(std::lrintf(scaled)));
    }
  }
  return OkStatus();
}

void DecodeRow(PayloadType type, const std::byte* in, int64_t width, float* row) {
  if (type == PayloadType::kF32) {
    std::memcpy(row, in, static_cast<size_t>(width) * sizeof(float));
    return;
  }
  if (type == PayloadType::kBF16) {
    for (int64_t i = 0; i < width; ++i) {
      uint16_t bits;
      std::memcpy(&bits, in + i * 2, 2);
      row[i] = FromBf16(bits);
    }
    return;
  }
  for (int64_t begin = 0; begin < width; begin += kGroup) {
    const int64_t count = std::min(kGroup, width - begin);
    float scale;
    std::memcpy(&scale, in, sizeof scale);
    in += sizeof scale;
    for (int64_t i = 0; i < count; ++i) {
      row[begin + i] = scale * static_cast<float>(static_cast<int8_t>(*in++));
    }
  }
}

bool IsKind(uint8_t kind) {
  return (kind >= 1 && kind <= 7) || kind == static_cast<uint8_t>(FrameKind::kError);
}

// Fills the header in front of a payload that already lies behind it, all but the payload's
// checksum, which it has.
void PutHeader(const FrameHeader& header, size_t begin, std::string* out) {
  auto* bytes = reinterpret_cast<std::byte*>(out->data() + begin);
  const size_t payload = out->size() - begin - kFrameHeaderBytes;
  Put(kMagic, 0, bytes);
  Put(kVersion, 4, bytes);
  Put(static_cast<uint8_t>(static_cast<uint8_t>(header.kind) | (header.answer ? kAnswerBit : 0)), 5,
      bytes);
  Put(static_cast<uint8_t>(header.type), 6, bytes);
  Put(uint8_t{0}, 7, bytes);
  std::memcpy(bytes + 8, header.identity.data(), header.identity.size());
  Put(header.request_id, 24, bytes);
  Put(header.argument, 32, bytes);
  Put(header.rows, 36, bytes);
  Put(header.width, 40, bytes);
  Put(header.time, 44, bytes);
  Put(static_cast<uint64_t>(payload), 48, bytes);
  Put(header.payload_crc, 56, bytes);
  Put(kernels::Crc32c({bytes, 60}), 60, bytes);
}

void SealFrame(FrameHeader header, size_t begin, std::string* out) {
  const std::span<const char> payload = std::span(*out).subspan(begin + kFrameHeaderBytes);
  header.payload_crc = kernels::Crc32c(std::as_bytes(payload));
  PutHeader(header, begin, out);
}

}  // namespace

std::string_view PayloadTypeName(PayloadType type) {
  constexpr std::array<std::string_view, 4> kNames = {"bytes", "f32", "bf16", "i8"};
  return kNames[static_cast<size_t>(type)];
}

ShortIdentity ShortIdentityOf(std::string_view hex) {
  const auto nibble = [&](size_t at) {
    const char digit = at < hex.size() ? hex[at] : '0';
    return digit >= 'a' ? digit - 'a' + 10 : digit - '0';
  };
  ShortIdentity identity;
  for (size_t i = 0; i < identity.size(); ++i) {
    identity[i] = static_cast<std::byte>(nibble(2 * i) * 16 + nibble(2 * i + 1));
  }
  return identity;
}

uint64_t RowsBytes(PayloadType type, uint64_t rows, uint64_t width) {
  switch (type) {
    case PayloadType::kBF16:
      return rows * width * 2;
    case PayloadType::kI8:
      return rows * (width + (width + kGroup - 1) / kGroup * sizeof(float));
    case PayloadType::kF32:
    case PayloadType::kBytes:
      break;
  }
  return rows * width * sizeof(float);
}

void AppendBytesFrame(FrameHeader header, std::string_view payload, std::string* out) {
  const size_t begin = out->size();
  out->append(kFrameHeaderBytes, '\0');
  out->append(payload);
  SealFrame(header, begin, out);
}

Status AppendRowsFrame(FrameHeader header, ConstF32Matrix rows, std::string* out) {
  header.rows = static_cast<uint32_t>(rows.rows);
  header.width = static_cast<uint32_t>(rows.cols);
  const size_t begin = out->size();
  const uint64_t row_bytes = RowsBytes(header.type, 1, header.width);
  out->resize(begin + kFrameHeaderBytes + row_bytes * header.rows);
  auto* at = reinterpret_cast<std::byte*>(out->data() + begin + kFrameHeaderBytes);
  for (int64_t row = 0; row < rows.rows; ++row, at += row_bytes) {
    Status status = AllFinite({rows.row(row), static_cast<size_t>(rows.cols)})
                        ? EncodeRow(header.type, rows.row(row), rows.cols, at)
                        : NotFinite("is not finite");
    if (!status.ok()) {
      out->resize(begin);
      return status;
    }
  }
  SealFrame(header, begin, out);
  return OkStatus();
}

Status FillFrame(FrameHeader header, int64_t rows, int64_t width,
                 const std::function<Status(F32Matrix, FrameHeader&)>& fill, std::string* out) {
  header.type = PayloadType::kF32;
  header.rows = static_cast<uint32_t>(rows);
  header.width = static_cast<uint32_t>(width);
  out->resize(kFrameHeaderBytes + RowsBytes(header.type, header.rows, header.width));
  // Aligned: a header is a whole number of floats.
  auto* values = reinterpret_cast<float*>(out->data() + kFrameHeaderBytes);
  PERGOLA_RETURN_IF_ERROR(fill(F32Matrix(values, rows, width), header));
  PutHeader(header, 0, out);
  return OkStatus();
}

Result<FrameHeader> ParseFrameHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kFrameHeaderBytes) return InvalidArgumentError("a frame header is cut off");
  if (Take<uint32_t>(bytes, 0) != kMagic) return InvalidArgumentError("this is no frame");
  if (Take<uint8_t>(bytes, 4) != kVersion) {
    return InvalidArgumentError("frame version " + std::to_string(Take<uint8_t>(bytes, 4)) +
                                ", expected 1");
  }
  if (Take<uint32_t>(bytes, 60) != kernels::Crc32c(bytes.first(60))) {
    return DataLossError("the checksum of a frame header is wrong");
  }
  const auto kind = Take<uint8_t>(bytes, 5);
  const auto type = Take<uint8_t>(bytes, 6);
  if (!IsKind(kind & ~kAnswerBit & 0xFF) || type > 3 || Take<uint8_t>(bytes, 7) != 0) {
    return InvalidArgumentError("a frame of kind " + std::to_string(kind) + ", payload type " +
                                std::to_string(type) + " is not known");
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind & ~kAnswerBit);
  header.answer = (kind & kAnswerBit) != 0;
  header.type = static_cast<PayloadType>(type);
  std::memcpy(header.identity.data(), bytes.data() + 8, header.identity.size());
  header.request_id = Take<uint64_t>(bytes, 24);
  header.argument = Take<uint32_t>(bytes, 32);
  header.rows = Take<uint32_t>(bytes, 36);
  header.width = Take<uint32_t>(bytes, 40);
  header.time = Take<uint32_t>(bytes, 44);
  header.payload_bytes = Take<uint64_t>(bytes, 48);
  header.payload_crc = Take<uint32_t>(bytes, 56);
  if (header.payload_bytes > kMaxPayloadBytes) {
    return InvalidArgumentError("a frame of " + std::to_string(header.payload_bytes) +
                                " bytes, the limit is " + std::to_string(kMaxPayloadBytes));
  }
  // Rows and width below the limit of bytes keep the product from wrapping.
  if (header.type != PayloadType::kBytes &&
      (header.rows == 0 || header.width == 0 || header.rows > kMaxPayloadBytes ||
       RowsBytes(header.type, header.rows, header.width) != header.payload_bytes)) {
    return InvalidArgumentError("a frame of " + std::to_string(header.rows) + " rows of " +
                                std::to_string(header.width) + " values in " +
                                std::string(PayloadTypeName(header.type)) + " has " +
                                std::to_string(header.payload_bytes) + " bytes");
  }
  return header;
}

Status CheckPayload(const FrameHeader& header, std::span<const std::byte> payload) {
  if (payload.size() == header.payload_bytes && kernels::Crc32c(payload) == header.payload_crc) {
    return OkStatus();
  }
  return DataLossError("the checksum of a frame's payload is wrong");
}

Status DecodeRows(const FrameHeader& header, std::span<const std::byte> payload, F32Matrix rows) {
  const uint64_t row_bytes = RowsBytes(header.type, 1, header.width);
  if (header.type == PayloadType::kBytes || payload.size() != row_bytes * header.rows ||
      rows.rows != header.rows || rows.cols != header.width) {
    return InvalidArgumentError("a frame of " + std::to_string(header.rows) + " rows of " +
                                std::to_string(header.width) + " values, expected " +
                                std::to_string(rows.rows) + " of " + std::to_string(rows.cols));
  }
  for (int64_t row = 0; row < rows.rows; ++row) {
    DecodeRow(header.type, payload.data() + static_cast<uint64_t>(row) * row_bytes, rows.cols,
              rows.row(row));
    if (!AllFinite({rows.row(row), static_cast<size_t>(rows.cols)}))
      return NotFinite("is not finite");
  }
  return OkStatus();
}

}  // namespace pergola::grid
