// Limits of one API key and what is used of them: requests and tokens per minute as token buckets,
// requests in work as a count.
//
//   if (auto refusal = key->Begin(Clock::now())) return Refuse(*refusal);
//   ... tokenise ...
//   if (auto refusal = key->TakeTokens(tokens, Clock::now())) return Refuse(*refusal);
//   ... answer ...
//   key->End();
//
// Nothing here looks at a clock: the time is an argument, so that tests move it. Time that goes
// back fills nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "service/inference_service.h"

namespace pergola::gateway {

// 0: no limit.
struct KeyLimits {
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  int64_t concurrent = 0;  // requests in work
  bool any() const { return requests_per_minute > 0 || tokens_per_minute > 0 || concurrent > 0; }
};

// A bucket that holds what a minute brings and is full at first. A plain value; thread-compatible.
class TokenBucket {
 public:
  using TimePoint = service::Clock::time_point;

  // What is left stays, as far as it fits into the new size. 0: no limit.
  void SetPerMinute(int64_t per_minute, TimePoint now);

  // Takes `amount` and returns zero, or takes nothing and returns how long until it could. More
  // than a minute brings passes when the bucket is full, and is then paid off: else it never would.
  service::Clock::duration Take(int64_t amount, TimePoint now);

 private:
  void Refill(TimePoint now);

  int64_t per_minute_ = 0;
  double level_ = 0;  // below zero: owed
  TimePoint at_;      // of level_
};

struct LimitRefusal {
  std::string_view limit;  // "requests", "tokens" or "concurrent"
  std::string message;     // names limit and number, never the key
  std::chrono::seconds retry_after{1};
};

// Thread-safe.
class KeyUsage {
 public:
  explicit KeyUsage(const KeyLimits& limits, service::Clock::time_point now) {
    SetLimits(limits, now);
  }

  // What was used counts on.
  void SetLimits(const KeyLimits& limits, service::Clock::time_point now);

  // A request begins: each that is not refused is ended with End.
  std::optional<LimitRefusal> Begin(service::Clock::time_point now);
  void End();
  // Its tokens, all at once.
  std::optional<LimitRefusal> TakeTokens(int64_t tokens, service::Clock::time_point now);

  int64_t in_work() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  KeyLimits limits_;
  TokenBucket requests_;
  TokenBucket tokens_;
  int64_t in_work_ = 0;
};

}  // namespace pergola::gateway
