#include "core/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pergola {
namespace {

Status Failure(const std::string& what) {
  return UnavailableError(what + ": " + std::strerror(errno));
}

// A descriptor of a new file with `contents`.
Result<int> Write(const std::string& name, std::string_view contents) {
  const int file = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file < 0) return Failure("no file in memory for " + name);
  while (!contents.empty()) {
    const ssize_t written = write(file, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const Status status = Failure("the file in memory for " + name + " cannot be written");
      close(file);
      return status;
    }
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return file;
}

}  // namespace

MemoryFile::MemoryFile(std::string name, int file)
    : name_(std::move(name)), file_(file), path_("/proc/self/fd/" + std::to_string(file)) {}

MemoryFile::~MemoryFile() { close(file_); }

Result<std::unique_ptr<MemoryFile>> MemoryFile::Make(const std::string& name,
                                                     std::string_view contents) {
  PERGOLA_ASSIGN_OR_RETURN(const int file, Write(name, contents));
  std::unique_ptr<MemoryFile> made(new MemoryFile(name, file));
  const int opened = open(made->path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return Failure(made->path_ + " cannot be opened");
  close(opened);
  return made;
}

Status MemoryFile::Replace(std::string_view contents) {
  PERGOLA_ASSIGN_OR_RETURN(const int file, Write(name_, contents));
  // The descriptor, and so the path, names the other file in one step.
  const bool replaced = dup3(file, file_, O_CLOEXEC) == file_;
  const Status status = replaced ? OkStatus() : Failure(path_ + " cannot be replaced");
  close(file);
  return status;
}

}  // namespace pergola
