#include "gateway/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "core/ascii.h"
#include "core/check.h"

namespace pergola::gateway {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // 32 KiB window, gzip header
constexpr size_t kStepBytes = 64 * 1024;

// zlib takes non-const input without changing it, and lengths of 32 bits.
Bytef* InputPointer(std::string_view bytes) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

struct Inflater {
  Inflater() { PERGOLA_CHECK(inflateInit2(&stream, kGzipWindowBits) == Z_OK); }
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream{};
};

bool IsZeroWeight(std::string_view parameters) {
  while (!parameters.empty()) {
    const size_t end = std::min(parameters.find(';'), parameters.size());
    const std::string_view parameter = Trimmed(parameters.substr(0, end));
    if (parameter.size() > 2 && EqualsIgnoringCase(parameter.substr(0, 2), "q=")) {
      return parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
    }
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return false;
}

}  // namespace

Result<std::string> Gunzip(std::string_view packed, size_t max_bytes) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string plain;
  size_t used = 0;  // of plain
  while (true) {
    if (stream.avail_in == 0 && !packed.empty()) {
      const size_t piece = std::min(packed.size(), kStepBytes);
      stream.next_in = InputPointer(packed);
      stream.avail_in = static_cast<uInt>(piece);
      packed.remove_prefix(piece);
    }
    if (used == plain.size()) {
      if (used > max_bytes) {
        return ResourceExhaustedError("the unpacked body is over the limit of " +
                                      std::to_string(max_bytes) + " bytes");
      }
      // One byte beyond the limit tells "exactly full" from "too large".
      plain.resize(std::min(max_bytes + 1, used + std::max(used, kStepBytes)));
    }
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + used);
    stream.avail_out = static_cast<uInt>(std::min<size_t>(plain.size() - used, 1 << 30));
    const uInt room = stream.avail_out;
    const int code = inflate(&stream, Z_NO_FLUSH);
    used += room - stream.avail_out;
    if (code == Z_STREAM_END) {
      if (stream.avail_in == 0 && packed.empty()) break;
      inflateReset(&stream);  // another member follows
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return InvalidArgumentError("the body is not valid gzip");
    } else if (stream.avail_in == 0 && packed.empty() && stream.avail_out > 0) {
      return InvalidArgumentError("the gzip body is cut short");
    }
  }
  if (used > max_bytes) {
    return ResourceExhaustedError("the unpacked body is over the limit of " +
                                  std::to_string(max_bytes) + " bytes");
  }
  plain.resize(used);
  return plain;
}

struct GzipWriter::Impl {
  z_stream stream{};
};

GzipWriter::GzipWriter() : impl_(std::make_unique<Impl>()) {
  PERGOLA_CHECK(deflateInit2(&impl_->stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindowBits, 8,
                             Z_DEFAULT_STRATEGY) == Z_OK);
}

GzipWriter::~GzipWriter() { deflateEnd(&impl_->stream); }

void GzipWriter::Append(std::string_view plain, bool finish, std::string* packed) {
  z_stream& stream = impl_->stream;
  char piece[16 * 1024];
  while (true) {
    const size_t take = std::min<size_t>(plain.size(), 1 << 30);
    const bool last = take == plain.size();
    stream.next_in = InputPointer(plain);
    stream.avail_in = static_cast<uInt>(take);
    plain.remove_prefix(take);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece);
      stream.avail_out = sizeof(piece);
      const int code = deflate(&stream, last && finish ? Z_FINISH : Z_NO_FLUSH);
      PERGOLA_DCHECK(code != Z_STREAM_ERROR);
      static_cast<void>(code);
      packed->append(piece, sizeof(piece) - stream.avail_out);
    } while (stream.avail_out == 0);
    if (last) return;
  }
}

std::string Gzip(std::string_view plain) {
  std::string packed;
  packed.reserve(plain.size() / 2);
  GzipWriter().Append(plain, true, &packed);
  return packed;
}

bool AcceptsGzip(std::string_view accept_encoding) {
  bool by_star = false;
  while (!accept_encoding.empty()) {
    const size_t end = std::min(accept_encoding.find(','), accept_encoding.size());
    const std::string_view entry = accept_encoding.substr(0, end);
    accept_encoding.remove_prefix(std::min(end + 1, accept_encoding.size()));
    const size_t semicolon = std::min(entry.find(';'), entry.size());
    const std::string_view name = Trimmed(entry.substr(0, semicolon));
    const bool wanted = !IsZeroWeight(entry.substr(std::min(semicolon + 1, entry.size())));
    if (EqualsIgnoringCase(name, "gzip") || EqualsIgnoringCase(name, "x-gzip")) return wanted;
    if (name == "*") by_star = wanted;
  }
  return by_star;
}

}  // namespace pergola::gateway
