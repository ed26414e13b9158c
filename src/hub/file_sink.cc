#include "hub/file_sink.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace pergola::hub {

Status WriteError(const std::filesystem::path& path, int error_number) {
  const std::string message =
      "cannot write '" + path.string() + "': " + std::strerror(error_number);
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ResourceExhaustedError("disk full: " + message +
                                    "; free some space and run the command again, it continues");
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDeniedError(message);
    default:
      return InternalError(message);
  }
}

FileSink::FileSink(int descriptor, std::filesystem::path path, int64_t bytes)
    : descriptor_(descriptor), path_(std::move(path)), bytes_(bytes) {}

FileSink::FileSink(FileSink&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      bytes_(other.bytes_) {}

FileSink& FileSink::operator=(FileSink&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileSink::~FileSink() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<FileSink> FileSink::Open(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return WriteError(path.parent_path(), error.value());
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return WriteError(path, errno);
  const off_t end = lseek(descriptor, 0, SEEK_END);
  if (end < 0) {
    const int saved = errno;
    close(descriptor);
    return WriteError(path, saved);
  }
  return FileSink(descriptor, path, end);
}

Status FileSink::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return WriteError(path_, errno);
    }
    bytes_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return OkStatus();
}

Status FileSink::Truncate(int64_t bytes) {
  if (ftruncate(descriptor_, bytes) != 0 || lseek(descriptor_, bytes, SEEK_SET) < 0) {
    return WriteError(path_, errno);
  }
  bytes_ = bytes;
  return OkStatus();
}

Status FileSink::Close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0) return OkStatus();
  const int synced = fsync(descriptor);
  const int sync_error = errno;
  if (close(descriptor) != 0) return WriteError(path_, errno);
  // A file system without fsync (EINVAL) is no failure.
  if (synced != 0 && sync_error != EINVAL) return WriteError(path_, sync_error);
  return OkStatus();
}

Status CheckFreeSpace(const std::filesystem::path& folder, int64_t needed_bytes) {
  constexpr int64_t kReserveBytes = 16 << 20;
  std::filesystem::path existing = folder;
  std::error_code error;
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  struct statvfs space {};
  if (existing.empty() || statvfs(existing.c_str(), &space) != 0) return OkStatus();
  const int64_t free_bytes =
      static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  if (needed_bytes <= 0 || free_bytes >= needed_bytes + kReserveBytes) return OkStatus();
  return ResourceExhaustedError("disk full: " + HumanBytes(needed_bytes) + " are needed in '" +
                                folder.string() + "', " + HumanBytes(free_bytes) +
                                " are free; set PERGOLA_HOME to a folder on another disk");
}

std::string HumanBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, kUnits[unit]);
  return text;
}

}  // namespace pergola::hub
