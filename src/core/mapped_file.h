// A file as read-only memory.
//
//   PERGOLA_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open("model.gguf"));
//   Parse(file.bytes());
//
// Pages are read when touched and belong to the page cache, so that several processes share one
// copy. Not a reader of pipes, and no protection against a file that somebody truncates while it is
// mapped: touching the lost part then ends the process (SIGBUS), as with every mmap.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "pergola/status.h"

namespace pergola {

// How the bytes are going to be used; only a hint to the system.
enum class AccessPattern {
  kNormal,      // some read-ahead
  kSequential,  // once, front to back: much read-ahead, pages dropped soon
  kRandom,      // no read-ahead: rows of an embedding table
  kWillNeed,    // all of it soon: start reading now
};

// Owns the mapping; movable. The bytes stay where they are when the MappedFile moves.
// Thread-compatible; reading bytes() is thread-safe.
class MappedFile {
 public:
  // NOT_FOUND or PERMISSION_DENIED when it cannot be opened; INVALID_ARGUMENT for a directory,
  // another thing that is not a regular file, or an empty file; RESOURCE_EXHAUSTED when it cannot
  // be mapped.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Page-aligned, never empty (except after a move); valid as long as this object.
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  // For the whole file. A system that does not know the hint ignores it.
  void Advise(AccessPattern pattern) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace pergola
