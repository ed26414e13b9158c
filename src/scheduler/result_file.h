// Outputs kept over restarts: a file of records, written in the background, never in a request's
// way.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto file, ResultFile::Open({path, identity, 256 << 20}, take));
//   file->Append(key, output);          // returns at once
//
// The file (result_records.h) is only ever appended to. Whatever a crash leaves is a prefix of
// whole records and a torn tail, which the next Open cuts. A file of another identity (other
// weights, another numeric class) is begun anew: its rows would be wrong here.
//
// Before the file outgrows its bound the newest records that fill half of it are copied to a new
// file, which then takes its name. When writing fails (a full disk) that is told once, the file is
// left as it was, and nothing more is written.
//
// While another process has the file (the one that this one is to follow, say) nothing is read or
// kept; it is asked for again every so often, and taken over as soon as it is free.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "pergola/status.h"
#include "scheduler/result_records.h"
#include "service/metric_sample.h"

namespace pergola::scheduler {

using TakeStored = std::function<void(SequenceKey key, StoredOutput output)>;

struct ResultFileOptions {
  std::string path;  // "<path>.lock" and "<path>.part" lie beside it
  // Of everything that decides the bits of a row beside its key.
  std::string identity;
  int64_t max_bytes = int64_t{1} << 30;
  // Records that wait to be written, in bytes; beyond it they are dropped and counted.
  int64_t max_waiting_bytes = int64_t{32} << 20;
  // From one attempt to the next to take a file over that another process has.
  std::chrono::milliseconds retry{5000};
  // Told what a log should hold: a file begun anew, a tail cut, writing given up, a file of another
  // process, and that it is so no more. On any thread.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  // As write(2); tests let it fail.
  std::function<ssize_t(int fd, const void* data, size_t size)> write;
};

// Thread-safe.
class ResultFile {
 public:
  // Reads what is there. If another process has the file that happens later, on another thread:
  // `take` must be callable as long as this lives. FAILED_PRECONDITION: it is a file of something
  // else. INTERNAL: it cannot be opened, read or begun, with the system's reason.
  static Result<std::unique_ptr<ResultFile>> Open(ResultFileOptions options, TakeStored take);
  // Writes what waits.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  void Append(const SequenceKey& key, StoredOutput output);
  // Waits until all that was appended is written or given up.
  void Flush();

  std::vector<service::MetricSample> Metrics() const;

 private:
  struct Waiting {
    SequenceKey key;
    StoredOutput output;
    int64_t bytes;
  };

  explicit ResultFile(ResultFileOptions options);
  // UNAVAILABLE: another process has it.
  Status TakeLock();
  // With the lock: opens and reads the file.
  Status Load(const TakeStored& take);
  Status ReadWhole(const TakeStored& take, size_t* whole);
  // Until the file is taken over or cannot be; false: this ends before.
  bool AwaitLock(const TakeStored& take);
  void WriteLoop();
  // The rest is the writing thread's, without the mutex.
  void Write(const Waiting& waiting);
  bool WriteWhole(int fd, std::string_view bytes) const;
  // Leaves at most half of max_bytes.
  Status Compact();
  void GiveUp(const std::string& reason);
  void CountDropped();

  const ResultFileOptions options_;
  int lock_fd_ = -1;
  int fd_ = -1;
  std::unordered_set<uint64_t> checksums_;  // of the file's payloads: nothing is written twice

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  int64_t waiting_bytes_ = 0;
  bool writing_ = false;
  bool stopping_ = false;
  bool failed_ = false;
  bool locked_out_ = false;  // another process has the file
  int64_t file_bytes_ = 0;
  uint64_t loaded_ = 0;
  uint64_t written_ = 0;
  uint64_t dropped_ = 0;

  std::thread thread_;
};

}  // namespace pergola::scheduler
