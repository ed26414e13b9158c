#include "scheduler/batching_policy.h"

#include <algorithm>

namespace pergola::scheduler {
namespace {

using service::Priority;

size_t ChooseHead(std::span<const WaitingSequence> queue, service::Clock::time_point now,
                  const BatchingOptions& options) {
  size_t oldest_online = queue.size();
  size_t oldest_bulk = queue.size();
  for (size_t index = 0; index < queue.size(); ++index) {
    size_t& oldest = queue[index].priority == Priority::kOnline ? oldest_online : oldest_bulk;
    oldest = std::min(oldest, index);
    if (oldest_online < queue.size() && oldest_bulk < queue.size()) break;
  }
  if (oldest_online == queue.size()) return oldest_bulk;
  if (oldest_bulk < queue.size() && now - queue[oldest_bulk].arrived > options.bulk_patience) {
    return oldest_bulk;
  }
  return oldest_online;
}

}  // namespace

std::vector<size_t> ChooseBatch(std::span<const WaitingSequence> queue,
                                service::Clock::time_point now, const BatchingOptions& options) {
  std::vector<size_t> batch;
  if (queue.empty()) return batch;
  const size_t head = ChooseHead(queue, now, options);
  batch.push_back(head);
  int64_t left = options.step_tokens - queue[head].tokens;
  int64_t looks = options.lookahead;
  for (const Priority priority : {Priority::kOnline, Priority::kBulk}) {
    for (size_t index = 0; index < queue.size(); ++index) {
      if (left <= 0 || static_cast<int64_t>(batch.size()) >= options.max_sequences) return batch;
      if (index == head || queue[index].priority != priority) continue;
      if (queue[index].tokens <= left) {
        batch.push_back(index);
        left -= queue[index].tokens;
      } else if (--looks < 0) {
        return batch;
      }
    }
  }
  return batch;
}

std::vector<size_t> ChooseExpress(std::span<const WaitingSequence> queue,
                                  std::span<const size_t> batch, const BatchingOptions& options) {
  const int64_t short_tokens = options.step_tokens / 16;
  int64_t left = options.step_tokens / 8;
  std::vector<size_t> express;
  if (options.lookahead == 0 || batch.size() == queue.size()) return express;
  const auto is_long = [&](size_t index) { return queue[index].tokens > short_tokens; };
  if (std::none_of(batch.begin(), batch.end(), is_long)) return express;
  std::vector<bool> taken(queue.size());
  for (const size_t index : batch) taken[index] = true;
  for (size_t index = 0; index < queue.size() && left > 0; ++index) {
    const WaitingSequence& each = queue[index];
    if (taken[index] || each.priority != Priority::kOnline) continue;
    if (is_long(index) || each.tokens > left) continue;
    if (static_cast<int64_t>(express.size()) >= options.max_sequences) break;
    express.push_back(index);
    left -= each.tokens;
  }
  return express;
}

service::Clock::time_point CollectUntil(const WaitingSum& waiting, const LastStep& last,
                                        const BatchingOptions& options) {
  constexpr service::Clock::time_point kAtOnce = service::Clock::time_point::min();
  if (waiting.tokens >= options.step_tokens ||
      static_cast<int64_t>(waiting.sequences) >= options.max_sequences) {
    return kAtOnce;
  }
  if (!options.adaptive_wait) return waiting.oldest + options.fixed_wait;
  if (last.sequences < 2 || waiting.sequences >= last.sequences) return kAtOnce;
  const auto share =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double, std::nano>(
          options.window_share * static_cast<double>(last.length.count())));
  return last.end + std::min(share, options.longest_window);
}

}  // namespace pergola::scheduler
