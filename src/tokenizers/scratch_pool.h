// Working memory that threads borrow from an immutable object, so that a call in the steady state
// does not allocate.
//
//   ScratchPool<Scratch> pool;
//   const auto scratch = pool.Borrow();  // back in the pool when it goes out of scope
//   scratch->word.clear();
#pragma once

#include <array>
#include <atomic>
#include <memory>

namespace pergola::tokenizers {

// Thread-safe and free of locks. Keeps at most as many objects as threads ever borrowed at once, up
// to kPlaces; the pool must outlive what is borrowed. `Scratch` has `bool too_large() const`:
// memory that a rare huge text left behind is not kept.
template <typename Scratch>
class ScratchPool {
 public:
  class Loan {
   public:
    Loan(ScratchPool* pool, std::unique_ptr<Scratch> scratch)
        : pool_(pool), scratch_(std::move(scratch)) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_->Return(std::move(scratch_)); }
    Scratch* operator->() const { return scratch_.get(); }
    Scratch* get() const { return scratch_.get(); }

   private:
    ScratchPool* pool_;
    std::unique_ptr<Scratch> scratch_;
  };

  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    for (auto& place : places_) std::unique_ptr<Scratch>(place.exchange(nullptr));
  }

  Loan Borrow() {
    for (auto& place : places_) {
      if (place.load(std::memory_order_relaxed) == nullptr) continue;
      std::unique_ptr<Scratch> scratch(place.exchange(nullptr, std::memory_order_acquire));
      if (scratch) return Loan(this, std::move(scratch));
    }
    return Loan(this, std::make_unique<Scratch>());
  }

 private:
  static constexpr size_t kPlaces = 64;

  void Return(std::unique_ptr<Scratch> scratch) {
    if (scratch->too_large()) return;
    for (auto& place : places_) {
      Scratch* expected = nullptr;
      if (place.compare_exchange_strong(expected, scratch.get(), std::memory_order_release,
                                        std::memory_order_relaxed)) {
        scratch.release();  // the place owns it
        return;
      }
    }
  }

  std::array<std::atomic<Scratch*>, kPlaces> places_{};
};

}  // namespace pergola::tokenizers
