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

Result<std::unique_ptr<ResultFile>> ResultFile::Open(ResultFileOptions options, TakeStored take) {
  if (!options.write) options.write = ::write;
  std::unique_ptr<ResultFile> file(new ResultFile(std::move(options)));
  Status status = file->TakeLock();
  file->locked_out_ = status.code() == StatusCode::kUnavailable;
  if (status.ok()) status = file->Load(take);
  if (!status.ok() && !file->locked_out_) return status;
  if (file->locked_out_) {
    file->options_.tell(status.message() + ": nothing is read or kept until it is free");
  }
  file->thread_ = std::thread([self = file.get(), take = std::move(take)] {
    if (self->AwaitLock(take)) self->WriteLoop();
  });
  return file;
}

Status ResultFile::TakeLock() {
  // A lock of its own file: the results' file changes when it is compacted.
  const std::string lock = options_.path + ".lock";
  if (lock_fd_ < 0) lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) return FileError("open", lock);
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return OkStatus();
  if (errno != EWOULDBLOCK) return FileError("lock", lock);
  return UnavailableError("'" + options_.path + "' is in use by another process");
}

bool ResultFile::AwaitLock(const TakeStored& take) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (locked_out_) {
    if (changed_.wait_for(lock, options_.retry, [this] { return stopping_; })) return false;
    lock.unlock();
    Status status = TakeLock();
    const bool locked_out = status.code() == StatusCode::kUnavailable;
    if (status.ok()) status = Load(take);
    lock.lock();
    if (locked_out) continue;
    locked_out_ = false;
    failed_ = failed_ || !status.ok();
    lock.unlock();
    options_.tell(status.ok() ? "'" + options_.path + "' is free and taken over"
                              : status.message() + ": nothing is kept");
    lock.lock();
  }
  return true;
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

Status ResultFile::ReadWhole(const TakeStored& take, size_t* whole) {
  PERGOLA_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(options_.path));
  if (!MayBeResults(mapped.bytes())) {
    return FailedPreconditionError("'" + options_.path +
                                   "' is no file of results: it is left as it is");
  }
  mapped.Advise(AccessPattern::kSequential);
  uint64_t loaded = 0;
  *whole = ReadRecords(mapped.bytes(), options_.identity, [&](StoredRecord record) {
    checksums_.insert(record.checksum);
    ++loaded;
    take(std::move(record.key), std::move(record.output));
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  loaded_ = loaded;
  return OkStatus();
}

Status ResultFile::Load(const TakeStored& take) {
  fd_ = ::open(options_.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd_ < 0) return FileError("open", options_.path);
  const off_t size = ::lseek(fd_, 0, SEEK_END);
  if (size < 0) return FileError("read", options_.path);
  size_t whole = 0;
  if (size > 0) PERGOLA_RETURN_IF_ERROR(ReadWhole(take, &whole));
  if (static_cast<off_t>(whole) < size) {
    options_.tell(whole == 0
                      ? "'" + options_.path + "' is of another model or numeric class: begun anew"
                      : "'" + options_.path + "': " + std::to_string(size - whole) +
                            " bytes behind the last whole record are cut off");
    if (::ftruncate(fd_, static_cast<off_t>(whole)) != 0) return FileError("cut", options_.path);
  }
  if (whole == 0) {
    const std::string header = HeaderBytes(options_.identity);
    if (!WriteWhole(fd_, header)) {
      GiveUp(Reason());
      return OkStatus();
    }
    whole = header.size();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  file_bytes_ = static_cast<int64_t>(whole);
  return OkStatus();
}

void ResultFile::Append(const SequenceKey& key, StoredOutput output) {
  const int64_t bytes = WaitingBytes(key, *output);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_ || locked_out_ || waiting_bytes_ + bytes > options_.max_waiting_bytes) {
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
      sample("pergola_cache_file_writable",
             "0: opening or writing failed and was given up, or the file is locked.",
             MetricKind::kGauge, failed_ || locked_out_ ? 0 : 1),
      sample("pergola_cache_file_locked",
             "1: another process has the file; it is taken over when it is free.",
             MetricKind::kGauge, locked_out_ ? 1 : 0),
      sample("pergola_cache_file_loaded_total", "Rows read from the file at the start.",
             MetricKind::kCounter, loaded_),
      sample("pergola_cache_file_written_total", "Rows written to the file.", MetricKind::kCounter,
             written_),
      sample("pergola_cache_file_dropped_total", "Rows that were not written.",
             MetricKind::kCounter, dropped_),
  };
}

}  // namespace pergola::scheduler
