// Writes a file that may be continued later, and says "disk full" when the disk is full.
//
//   PERGOLA_ASSIGN_OR_RETURN(FileSink sink, FileSink::Open(path));
//   PERGOLA_RETURN_IF_ERROR(sink.Write(bytes));
//   PERGOLA_RETURN_IF_ERROR(sink.Close());
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "pergola/status.h"

namespace pergola::hub {

// Thread-compatible. Moves; closes itself, without telling of errors, when destroyed.
class FileSink {
 public:
  // Opens for writing at the end of what is there, made with its folders if missing.
  static Result<FileSink> Open(const std::filesystem::path& path);
  FileSink(FileSink&& other) noexcept;
  FileSink& operator=(FileSink&& other) noexcept;
  ~FileSink();

  int64_t bytes() const { return bytes_; }  // length of the file so far

  // RESOURCE_EXHAUSTED when the disk, a quota or a file-size limit is full.
  Status Write(std::string_view bytes);
  // Throws away everything after the first `bytes` bytes.
  Status Truncate(int64_t bytes);
  // Flushes to the disk and closes.
  Status Close();

 private:
  FileSink(int descriptor, std::filesystem::path path, int64_t bytes);

  int descriptor_ = -1;
  std::filesystem::path path_;
  int64_t bytes_ = 0;
};

// The Status of a failed write to `path` with system error `error_number`.
Status WriteError(const std::filesystem::path& path, int error_number);

// RESOURCE_EXHAUSTED when the file system that holds `folder` (or its nearest existing parent) has
// less than `needed_bytes` and a reserve of 16 MiB free.
Status CheckFreeSpace(const std::filesystem::path& folder, int64_t needed_bytes);

// "1.21 GB", "466 kB", "53 B": powers of 1000, three digits.
std::string HumanBytes(int64_t bytes);

}  // namespace pergola::hub
