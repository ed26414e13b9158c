// A lock between processes on one file. The system frees it when its holder ends, however it ends.
#pragma once

#include <filesystem>
#include <functional>

#include "pergola/status.h"

namespace pergola::hub {

// Moves; unlocks when destroyed. The file stays: deleting it would let two holders in.
class FileLock {
 public:
  // Waits until the lock is free; `on_wait` is called once if it is not free at once.
  static Result<FileLock> Acquire(const std::filesystem::path& path,
                                  const std::function<void()>& on_wait);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace pergola::hub
