#include "cli/embed_output.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/json_text.h"
#include "hub/file_sink.h"

namespace pergola::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "f32 and npy files are little-endian");

Status NotSuchFile(const std::string& path, const std::string& why) {
  return InvalidArgumentError("cannot continue '" + path + "': " + why);
}

int64_t RowBytes(int64_t width) { return width * static_cast<int64_t>(sizeof(float)); }

Result<RowFileState> InspectMatrix(const std::string& path, int64_t size, int64_t header_bytes,
                                   int64_t width) {
  RowFileState state;
  state.rows = std::max<int64_t>(0, size - header_bytes) / RowBytes(width);
  state.bytes = header_bytes + state.rows * RowBytes(width);
  state.records = state.rows;
  if (size < header_bytes) return NotSuchFile(path, "it ends within its header");
  return state;
}

Result<RowFileState> InspectNpy(const std::string& path, int64_t size, int64_t width) {
  std::string header(kNpyHeaderBytes, '\0');
  std::ifstream(path, std::ios::binary).read(header.data(), kNpyHeaderBytes);
  // All but the number of rows must be as we write it.
  const std::string ours = NpyHeader(0, width);
  const size_t shape = ours.find("(0, ") + 1;
  const size_t comma = header.find(',', shape);
  const std::string width_text = ", " + std::to_string(width) + ")";
  if (header.compare(0, shape, ours, 0, shape) != 0 || comma == std::string::npos ||
      header.compare(comma, width_text.size(), width_text) != 0) {
    return NotSuchFile(path, "it is no npy file of float32 rows of " + std::to_string(width) +
                                 " values made by this command");
  }
  return InspectMatrix(path, size, kNpyHeaderBytes, width);
}

// The last complete line of the file and where it ends; an empty line if there is none.
std::string LastLine(const std::string& path, int64_t size, int64_t* end) {
  std::ifstream file(path, std::ios::binary);
  for (int64_t window = 64 << 10;; window *= 4) {
    const int64_t from = std::max<int64_t>(0, size - window);
    std::string tail(static_cast<size_t>(size - from), '\0');
    file.clear();
    file.seekg(from);
    file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
    const size_t last = tail.rfind('\n');
    if (last == std::string::npos && from > 0) continue;
    if (last == std::string::npos) {
      *end = 0;
      return "";
    }
    const size_t previous = last == 0 ? std::string::npos : tail.rfind('\n', last - 1);
    if (previous == std::string::npos && from > 0) continue;
    const size_t begin = previous == std::string::npos ? 0 : previous + 1;
    *end = from + static_cast<int64_t>(last) + 1;
    return tail.substr(begin, last - begin);
  }
}

int64_t CountLines(const std::string& path, int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string block(1 << 20, '\0');
  int64_t lines = 0;
  while (bytes > 0) {
    const auto count =
        static_cast<std::streamsize>(std::min<int64_t>(bytes, static_cast<int64_t>(block.size())));
    if (!file.read(block.data(), count)) break;
    lines += std::count(block.data(), block.data() + count, '\n');
    bytes -= count;
  }
  return lines;
}

Result<RowFileState> InspectJsonl(const std::string& path, int64_t size, int64_t width) {
  RowFileState state;
  const std::string line = LastLine(path, size, &state.bytes);
  if (state.bytes == 0) return state;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array values;
  int64_t index = -1;
  if (parser.parse(line).get(root) || root["index"].get(index) || index < 0 ||
      root["embedding"].get(values)) {
    return NotSuchFile(path, "its last complete line is none of this command's");
  }
  if (static_cast<int64_t>(values.size()) != width) {
    return NotSuchFile(path, "its rows have " + std::to_string(values.size()) +
                                 " values, the model's " + std::to_string(width));
  }
  state.records = index + 1;
  state.rows = CountLines(path, state.bytes);
  return state;
}

}  // namespace

std::optional<RowFormat> ParseRowFormat(std::string_view name) {
  if (name == "jsonl") return RowFormat::kJsonl;
  if (name == "npy") return RowFormat::kNpy;
  if (name == "f32") return RowFormat::kF32;
  return std::nullopt;
}

std::string NpyHeader(int64_t rows, int64_t width) {
  std::string header("\x93NUMPY\x01\x00\x76\x00", 10);  // version 1.0, 118 bytes follow
  header += "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
            std::to_string(width) + "), }";
  header.resize(static_cast<size_t>(kNpyHeaderBytes) - 1, ' ');
  return header + "\n";
}

Result<RowFileState> InspectRowFile(const std::string& path, RowFormat format, int64_t width) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return NotFoundError("cannot read '" + path + "': " + error.message());
  switch (format) {
    case RowFormat::kNpy:
      return InspectNpy(path, size, width);
    case RowFormat::kF32:
      return InspectMatrix(path, size, 0, width);
    case RowFormat::kJsonl:
      break;
  }
  return InspectJsonl(path, size, width);
}

RowWriter::RowWriter(int descriptor, std::string path, RowFormat format, int64_t width)
    : descriptor_(descriptor), path_(std::move(path)), format_(format), width_(width) {}

RowWriter::RowWriter(RowWriter&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      format_(other.format_),
      width_(other.width_),
      seekable_(other.seekable_),
      buffer_(std::move(other.buffer_)),
      rows_(other.rows_),
      bytes_(other.bytes_) {}

RowWriter::~RowWriter() {
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

Result<RowWriter> RowWriter::Open(const std::string& path, RowFormat format, int64_t width,
                                  std::optional<RowFileState> keep) {
  const bool is_stdout = path == "-";
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (keep ? 0 : O_TRUNC);
  const int descriptor = is_stdout ? STDOUT_FILENO : open(path.c_str(), flags, 0644);
  if (descriptor < 0) return hub::WriteError(path, errno);
  RowWriter writer(descriptor, is_stdout ? "stdout" : path, format, width);
  struct stat info {};
  // Appending (">>") cannot go back to write a header.
  writer.seekable_ = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                     lseek(descriptor, 0, SEEK_CUR) == 0 &&
                     (fcntl(descriptor, F_GETFL) & O_APPEND) == 0;
  if (format == RowFormat::kNpy && !writer.seekable_) {
    return InvalidArgumentError("the npy format needs a file of its own: use --output FILE");
  }
  if (keep) {
    if (ftruncate(descriptor, keep->bytes) != 0 || lseek(descriptor, keep->bytes, SEEK_SET) < 0) {
      return hub::WriteError(path, errno);
    }
    writer.rows_ = keep->rows;
    writer.bytes_ = keep->bytes;
  }
  if (format == RowFormat::kNpy && writer.bytes_ == 0) {
    writer.buffer_ = NpyHeader(0, width);
    PERGOLA_RETURN_IF_ERROR(writer.Flush());
  }
  return writer;
}

void RowWriter::Append(int64_t index, std::span<const float> row) {
  ++rows_;
  if (format_ != RowFormat::kJsonl) {
    buffer_.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
    return;
  }
  buffer_ += "{\"index\":" + std::to_string(index) + ",\"embedding\":[";
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) buffer_ += ',';
    AppendJsonFloat(row[i], &buffer_);
  }
  buffer_ += "]}\n";
}

Status RowWriter::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) return UnavailableError("nobody reads " + path_ + " any more");
      return hub::WriteError(path_, errno);
    }
    bytes_ += written;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
  return OkStatus();
}

Status RowWriter::Commit() {
  PERGOLA_RETURN_IF_ERROR(Flush());
  if (!seekable_) return OkStatus();
  if (format_ == RowFormat::kNpy) {
    const std::string header = NpyHeader(rows_, width_);
    if (pwrite(descriptor_, header.data(), header.size(), 0) != kNpyHeaderBytes) {
      return hub::WriteError(path_, errno);
    }
  }
  if (fdatasync(descriptor_) != 0 && errno != EINVAL) return hub::WriteError(path_, errno);
  return OkStatus();
}

}  // namespace pergola::cli
