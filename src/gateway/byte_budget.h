// A global limit on bytes held for requests, taken in steps while they arrive.
//
//   ByteReservation held(budget);
//   if (!held.GrowTo(body.size())) return TooBusy();   // gives all back when it goes away
//
// The last eighth of a budget is kept for small holders (up to 64 KiB each), so that a few peers
// that send huge bodies slowly cannot shut out everybody else.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace pergola::gateway {

// Thread-safe; lock-free.
class ByteBudget {
 public:
  static constexpr uint64_t kSmallBytes = 64 * 1024;

  explicit ByteBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Takes `bytes` more for a holder that will then have `total` bytes. False: over the limit, none
  // taken.
  bool Take(uint64_t bytes, uint64_t total) {
    const uint64_t limit = total <= kSmallBytes ? limit_bytes_ : limit_bytes_ - limit_bytes_ / 8;
    uint64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit || used > limit - bytes) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Give(uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  const uint64_t limit_bytes_;
  std::atomic<uint64_t> used_bytes_ = 0;
};

// What one holder has taken. Thread-compatible; may be destroyed on any thread.
class ByteReservation {
 public:
  // Second owner: the server; a holder may outlive it.
  explicit ByteReservation(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ~ByteReservation() { budget_->Give(bytes_); }
  ByteReservation(const ByteReservation&) = delete;
  ByteReservation& operator=(const ByteReservation&) = delete;

  // False: the budget is spent; what is held already stays held.
  bool GrowTo(uint64_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->Take(bytes - bytes_, bytes)) return false;
    bytes_ = bytes;
    return true;
  }
  void Release() { budget_->Give(std::exchange(bytes_, 0)); }

 private:
  std::shared_ptr<ByteBudget> budget_;
  uint64_t bytes_ = 0;
};

}  // namespace pergola::gateway
