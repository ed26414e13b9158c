#include "service/cancel_token.h"

#include <utility>

namespace pergola::service {

void CancelToken::Cancel() {
  std::map<ListenerId, std::function<void()>> listeners;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_.store(true, std::memory_order_relaxed);
    listeners.swap(listeners_);
  }
  for (const auto& [id, listener] : listeners) listener();
}

CancelToken::ListenerId CancelToken::Listen(std::function<void()> listener) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!cancelled()) {
      const ListenerId id = next_id_++;
      listeners_.emplace(id, std::move(listener));
      return id;
    }
  }
  listener();
  return 0;
}

void CancelToken::Forget(ListenerId id) {
  std::function<void()> forgotten;  // destroyed without the mutex
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return;
  forgotten = std::move(found->second);
  listeners_.erase(found);
}

}  // namespace pergola::service
