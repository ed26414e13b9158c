#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <system_error>

namespace pergola {
namespace {

Status ErrnoStatus(int error, const std::string& path, const char* what) {
  std::string message =
      "file '" + path + "': " + what + ": " + std::generic_category().message(error);
  if (error == ENOENT || error == ENOTDIR) return NotFoundError(std::move(message));
  if (error == EACCES || error == EPERM) return PermissionDeniedError(std::move(message));
  if (error == ENOMEM || error == EMFILE || error == ENFILE || error == EAGAIN) {
    return ResourceExhaustedError(std::move(message));
  }
  return UnavailableError(std::move(message));
}

// Closes on scope exit; a mapping does not need its descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait for one; regular files ignore it.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return ErrnoStatus(errno, path, "cannot open");
  struct stat facts = {};
  if (::fstat(descriptor.get(), &facts) != 0) return ErrnoStatus(errno, path, "cannot stat");
  if (S_ISDIR(facts.st_mode)) return InvalidArgumentError("file '" + path + "' is a directory");
  if (!S_ISREG(facts.st_mode)) {
    return InvalidArgumentError("file '" + path + "' is not a regular file");
  }
  if (facts.st_size == 0) return InvalidArgumentError("file '" + path + "' is empty");
  if (static_cast<uint64_t>(facts.st_size) > std::numeric_limits<size_t>::max()) {
    return ResourceExhaustedError("file '" + path + "' is larger than the address space");
  }
  const size_t size = static_cast<size_t>(facts.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (address == MAP_FAILED) return ErrnoStatus(errno, path, "cannot map");
  return MappedFile(path, {static_cast<const std::byte*>(address), size});
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Advise(AccessPattern pattern) const {
  if (bytes_.empty()) return;
  int advice = MADV_NORMAL;
  switch (pattern) {
    case AccessPattern::kNormal:
      break;
    case AccessPattern::kSequential:
      advice = MADV_SEQUENTIAL;
      break;
    case AccessPattern::kRandom:
      advice = MADV_RANDOM;
      break;
    case AccessPattern::kWillNeed:
      advice = MADV_WILLNEED;
      break;
  }
  static_cast<void>(::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), advice));
}

}  // namespace pergola
