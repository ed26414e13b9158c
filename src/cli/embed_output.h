// The rows that `pergola embed` writes, in one of three formats:
//
//   jsonl  {"index":0,"embedding":[0.1,-0.2]} per row; index is the record's number in the input
//   f32    rows end to end, little-endian float32 [rows, E]
//   npy    NumPy format 1.0: 128 bytes of header, then the same [rows, E]
//
// A row is appended once and never changed, so the length of a file tells how far it got. The
// header of an npy file is always 128 bytes and states the rows of the last Commit: the file can be
// read at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::cli {

enum class RowFormat { kJsonl, kNpy, kF32 };

// By name; nullopt for another.
std::optional<RowFormat> ParseRowFormat(std::string_view name);

inline constexpr int64_t kNpyHeaderBytes = 128;

// The 128 bytes of an npy header for float32 [rows, width].
std::string NpyHeader(int64_t rows, int64_t width);

// What a file of rows holds.
struct RowFileState {
  int64_t rows = 0;   // complete ones
  int64_t bytes = 0;  // up to the end of the last complete row: what follows is torn
  int64_t records =
      0;  // input records that these rows stand for: the last index + 1 for jsonl, else rows
};

// Reads how far the file at `path` got. INVALID_ARGUMENT: it is not such a file, or its rows have
// another width.
Result<RowFileState> InspectRowFile(const std::string& path, RowFormat format, int64_t width);

// Thread-confined.
class RowWriter {
 public:
  // `path` "-" is stdout. `keep` = nullopt starts an empty file; else the file is cut to its bytes
  // and continued. INVALID_ARGUMENT: npy to something without random access (a pipe).
  static Result<RowWriter> Open(const std::string& path, RowFormat format, int64_t width,
                                std::optional<RowFileState> keep);
  RowWriter(RowWriter&& other) noexcept;
  RowWriter& operator=(RowWriter&&) = delete;
  ~RowWriter();

  // Buffers one row [E].
  void Append(int64_t index, std::span<const float> row);
  // Hands what is buffered to the system. RESOURCE_EXHAUSTED: disk full. UNAVAILABLE: the reader of
  // a pipe has gone.
  Status Flush();
  // Flush; then the file states its rows and is safe on the disk.
  Status Commit();

  int64_t rows() const { return rows_; }    // appended, those of an earlier run included
  int64_t bytes() const { return bytes_; }  // of the file after Flush

 private:
  RowWriter(int descriptor, std::string path, RowFormat format, int64_t width);

  int descriptor_;
  std::string path_;
  RowFormat format_;
  int64_t width_;
  bool seekable_ = false;
  std::string buffer_;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace pergola::cli
