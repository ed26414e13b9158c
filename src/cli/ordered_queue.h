// A bounded queue between pipeline stages that gives items out in the order of their numbers,
// whoever finishes first.
//
//   OrderedQueue<Chunk> queue(4);
//   queue.Push(sequence, std::move(chunk));   // any thread; waits while `sequence` is too far
//   ahead while (std::optional<Chunk> chunk = queue.Pop()) Use(*chunk);
//
// Numbers start at 0 and none is left out. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace pergola::cli {

template <typename T>
class OrderedQueue {
 public:
  // At most `capacity` items wait; the one that Pop waits for always fits, so that it cannot lock
  // up.
  explicit OrderedQueue(int64_t capacity) : capacity_(capacity) {}

  // False when the queue was cancelled: the item is dropped.
  bool Push(int64_t sequence, T item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ || sequence < next_ + capacity_; });
    if (cancelled_) return false;
    items_.emplace(sequence, std::move(item));
    changed_.notify_all();
    return true;
  }

  // The next item in order; nullopt when cancelled, or closed and nothing is left.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ || closed_ || HasNext(); });
    if (cancelled_ || !HasNext()) return std::nullopt;
    T item = std::move(items_.begin()->second);
    items_.erase(items_.begin());
    ++next_;
    changed_.notify_all();
    return item;
  }

  // No more items will come.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  // Everyone who waits returns, nothing is given out any more.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

 private:
  bool HasNext() const { return !items_.empty() && items_.begin()->first == next_; }

  const int64_t capacity_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<int64_t, T> items_;
  int64_t next_ = 0;
  bool closed_ = false;
  bool cancelled_ = false;
};

}  // namespace pergola::cli
