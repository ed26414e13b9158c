// A file in memory for a library that reads by path only: nothing of it is on disk, and nobody but
// this user can open it.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto file, MemoryFile::Make("certificates", pem));
//   library.Watch(file->path());
//   PERGOLA_RETURN_IF_ERROR(file->Replace(newer_pem));
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola {

// Thread-safe.
class MemoryFile {
 public:
  // `name` is for people who look at /proc. UNAVAILABLE: the system has no such files, or /proc
  // cannot be read.
  static Result<std::unique_ptr<MemoryFile>> Make(const std::string& name,
                                                  std::string_view contents);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // To open in this process, as long as the object lives.
  const std::string& path() const { return path_; }
  // Whoever opens it from now on reads `contents`; who has opened it goes on with what was there.
  // UNAVAILABLE: all stays as it was.
  Status Replace(std::string_view contents);

 private:
  MemoryFile(std::string name, int file);

  const std::string name_;
  const int file_;
  const std::string path_;
};

}  // namespace pergola
