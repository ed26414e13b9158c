// Tells everybody who works on a request that nobody waits for it any more.
//
//   auto cancel = std::make_shared<CancelToken>();
//   const auto listener = cancel->Listen([call] { call->Abort(); });   // a remote call
//   if (cancel->cancelled()) return;                                   // a loop
//   cancel->Cancel();                                                  // the connection closed
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace pergola::service {

// Shared by whoever may cancel and whoever works. Thread-safe.
class CancelToken {
 public:
  using ListenerId = uint64_t;

  CancelToken() = default;
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  // The first call runs the listeners, on this thread.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // `listener` is called once when cancelled, at once if that has happened. It must not block, and
  // must own what it touches: Forget does not wait for it.
  ListenerId Listen(std::function<void()> listener);
  // The listener is not called any more, unless it just runs on another thread. Unknown ids do
  // nothing.
  void Forget(ListenerId id);

 private:
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;  // guards what follows
  ListenerId next_id_ = 1;
  std::map<ListenerId, std::function<void()>> listeners_;
};

}  // namespace pergola::service
