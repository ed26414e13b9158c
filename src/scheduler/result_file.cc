#include "scheduler/result_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "core/mapped_file.h"

namespace pergola::scheduler {
namespace {

std::string Reason() { return std::strerror(errno); }

Status FileError(const std::string& what, const std::string& path) {
  return InternalError("cannot " + what + " '" + path + "': " + Reason());
}

// What a record takes in memory while it waits, about.
int64_t WaitingBytes(const SequenceKey& key, const service::SequenceOutput& output) {
  return static_cast<int64_t>(128 + key.sequence.ids.size() * sizeof(int32_t) +
                              key.sequence.spans.size() * sizeof(TokenSpan) +
                              output.values() * sizeof(float));
}

}  // namespace

ResultFile::ResultFile(ResultFileOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<ResultFile>> ResultFile::Open(ResultFileOptions options,
                                                     const TakeStored& take) {
  if (!options.write) options.write = ::write;
  std::unique_ptr<ResultFile> file(new ResultFile(std::move(options)));
  const std::string& path = file->options_.path;
  // A lock of its own file: the results' file changes when it is compacted.
  const std::string lock = path + ".lock";
  file->lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file->lock_fd_ < 0) return FileError("open", lock);
  if (::flock(file->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return FailedPreconditionError("'" + path + "' is in use by another process");
  }
  file->fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file->fd_ < 0) return FileError("open", path);
  PERGOLA_RETURN_IF_ERROR(file->Load(take));
  file->thread_ = std::thread([self = file.get()] { self->WriteLoop(); });
  return file;
}

ResultFile::~ResultFile() {
  if (thread_.joinable()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  if (fd_ >= 0) ::close(fd_);
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Status ResultFile::Load(const TakeStored& take) {
  const off_t size = ::lseek(fd_, 0, SEEK_END);
  if (size < 0) return FileError("read", options_.path);
  size_t whole = 0;
  if (size > 0) {
    PERGOLA_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(options_.path));
    if (!MayBeResults(mapped.bytes())) {
      return FailedPreconditionError("'" + options_.path +
                                     "' is no file of results: it is left as it is");
    }
    mapped.Advise(AccessPattern::kSequential);
    whole = ReadRecords(mapped.bytes(), options_.identity, [&](StoredRecord record) {
      checksums_.insert(record.checksum);
      ++loaded_;
      take(std::move(record.key), std::move(record.output));
    });
  }
  if (static_cast<off_t>(whole) < size) {
    options_.tell(whole == 0
                      ? "'" + options_.path + "' is of another model or numeric class: begun anew"
                      : "'" + options_.path + "': " + std::to_string(size - whole) +
                            " bytes behind the last whole record are cut off");
    if (::ftruncate(fd_, static_cast<off_t>(whole)) != 0) return FileError("cut", options_.path);
  }
  file_bytes_ = static_cast<int64_t>(whole);
  if (whole > 0) return OkStatus();
  const std::string header = HeaderBytes(options_.identity);
  if (WriteWhole(fd_, header)) {
    file_bytes_ = static_cast<int64_t>(header.size());
  } else {
    GiveUp(Reason());
  }
  return OkStatus();
}

void ResultFile::Append(const SequenceKey& key, StoredOutput output) {
  const int64_t bytes = WaitingBytes(key, *output);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_ || waiting_bytes_ + bytes > options_.max_waiting_bytes) {
      ++dropped_;
      return;
    }
    waiting_bytes_ += bytes;
    queue_.push_back({key, std::move(output), bytes});
  }
  changed_.notify_all();
}

void ResultFile::Flush() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !writing_; });
}

void ResultFile::WriteLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    const bool failed = failed_;
    lock.unlock();
    if (!failed) Write(waiting);
    lock.lock();
    if (failed) ++dropped_;
    waiting_bytes_ -= waiting.bytes;
    writing_ = false;
    changed_.notify_all();
  }
}

void ResultFile::Write(const Waiting& waiting) {
  const std::string record = RecordBytes(waiting.key, *waiting.output);
  if (checksums_.contains(ChecksumOf(record))) return;
  const auto size = static_cast<int64_t>(record.size());
  bool fits = file_bytes_ + size <= options_.max_bytes;
  if (!fits && size <= options_.max_bytes / 2) {
    if (const Status status = Compact(); !status.ok()) {
      GiveUp(status.message());
      CountDropped();
      return;
    }
    fits = file_bytes_ + size <= options_.max_bytes;
  }
  if (!fits) {
    CountDropped();
    return;
  }
  if (!WriteWhole(fd_, record)) {
    GiveUp(Reason());
    CountDropped();
    return;
  }
  checksums_.insert(ChecksumOf(record));
  const std::lock_guard<std::mutex> lock(mutex_);
  file_bytes_ += size;
  ++written_;
}

void ResultFile::CountDropped() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++dropped_;
}

bool ResultFile::WriteWhole(int fd, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = options_.write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ENOSPC;
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

Status ResultFile::Compact() {
  PERGOLA_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(options_.path));
  std::vector<std::pair<std::string_view, uint64_t>> records;
  ReadRecords(mapped.bytes(), options_.identity, [&records](StoredRecord record) {
    records.emplace_back(record.bytes, record.checksum);
  });
  std::string header = HeaderBytes(options_.identity);
  auto size = static_cast<int64_t>(header.size());
  size_t first = records.size();
  while (first > 0) {
    const auto next = static_cast<int64_t>(records[first - 1].first.size());
    if (size + next > options_.max_bytes / 2) break;
    size += next;
    --first;
  }
  const std::string part = options_.path + ".part";
  const int fd = ::open(part.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("open", part);
  bool good = WriteWhole(fd, header);
  std::unordered_set<uint64_t> checksums;
  for (size_t index = first; good && index < records.size(); ++index) {
    good = WriteWhole(fd, records[index].first);
    checksums.insert(records[index].second);
  }
  good = good && ::fsync(fd) == 0 && ::rename(part.c_str(), options_.path.c_str()) == 0;
  if (!good) {
    const Status status = FileError("write", part);
    ::close(fd);
    ::unlink(part.c_str());
    return status;
  }
  ::close(std::exchange(fd_, fd));
  checksums_ = std::move(checksums);
  const std::lock_guard<std::mutex> lock(mutex_);
  file_bytes_ = size;
  return OkStatus();
}

void ResultFile::GiveUp(const std::string& reason) {
  // Part of a record may be there. Where even that fails the next Open cuts it.
  const bool cut = ::ftruncate(fd_, file_bytes_) == 0;
  options_.tell("'" + options_.path + "' is not written any more: " + reason +
                (cut ? "" : "; its tail is torn"));
  const std::lock_guard<std::mutex> lock(mutex_);
  failed_ = true;
}

std::vector<service::MetricSample> ResultFile::Metrics() const {
  using service::MetricKind;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto sample = [](std::string name, std::string help, MetricKind kind, auto value) {
    return service::MetricSample{
        std::move(name), std::move(help), kind, {}, static_cast<double>(value), {}, {}};
  };
  return {
      sample("pergola_cache_file_bytes", "Size of the file of results.", MetricKind::kGauge,
             file_bytes_),
      sample("pergola_cache_file_writable", "0: opening or writing failed and was given up.",
             MetricKind::kGauge, failed_ ? 0 : 1),
      sample("pergola_cache_file_loaded_total", "Rows read from the file at the start.",
             MetricKind::kCounter, loaded_),
      sample("pergola_cache_file_written_total", "Rows written to the file.", MetricKind::kCounter,
             written_),
      sample("pergola_cache_file_dropped_total", "Rows that were not written.",
             MetricKind::kCounter, dropped_),
  };
}

}  // namespace pergola::scheduler
