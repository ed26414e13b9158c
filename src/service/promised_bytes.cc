#include "service/promised_bytes.h"

#include <string>
#include <utility>

namespace pergola::service {
namespace {

class Promise {
 public:
  Promise(std::shared_ptr<std::atomic<int64_t>> total, int64_t bytes)
      : total_(std::move(total)), bytes_(bytes) {}
  ~Promise() { total_->fetch_sub(bytes_, std::memory_order_relaxed); }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

 private:
  const std::shared_ptr<std::atomic<int64_t>> total_;
  const int64_t bytes_;
};

}  // namespace

int64_t AnswerBytes(const ModelInfo& info, OutputSet outputs, std::span<const Sequence> sequences) {
  int64_t values = 0;
  for (const Sequence& sequence : sequences) {
    for (const OutputKind kind : kOutputKinds) {
      if (outputs.Has(kind)) values += sequence.rows(kind) * info.width(kind);
    }
  }
  return values * static_cast<int64_t>(sizeof(float));
}

Result<std::shared_ptr<const void>> PromisedBytes::Take(int64_t bytes) {
  constexpr int64_t kSmallBytes = 1 << 20;
  const int64_t limit = bytes <= kSmallBytes ? limit_ : limit_ - limit_ / 8;
  if (bytes > limit) {
    return InvalidArgumentError("the answer would take " + std::to_string(bytes) +
                                " bytes, the limit is " + std::to_string(limit));
  }
  const int64_t before = taken_->fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > limit - before) {
    taken_->fetch_sub(bytes, std::memory_order_relaxed);
    return ResourceExhaustedError(std::to_string(before) + " bytes of answers are promised, " +
                                  std::to_string(bytes) + " more exceed the limit of " +
                                  std::to_string(limit));
  }
  return std::shared_ptr<const void>(std::make_shared<const Promise>(taken_, bytes));
}

}  // namespace pergola::service
