#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "hub/file_sink.h"

namespace pergola::hub {

Result<FileLock> FileLock::Acquire(const std::filesystem::path& path,
                                   const std::function<void()>& on_wait) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return WriteError(path.parent_path(), error.value());
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return WriteError(path, errno);
  FileLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  on_wait();
  while (flock(descriptor, LOCK_EX) != 0) {
    if (errno != EINTR) return WriteError(path, errno);
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace pergola::hub
