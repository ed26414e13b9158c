#include "gateway/key_usage.h"

#include <algorithm>
#include <cmath>

namespace pergola::gateway {
namespace {

using service::Clock;
using Minutes = std::chrono::duration<double, std::ratio<60>>;

LimitRefusal Refusal(std::string_view limit, const std::string& what, Clock::duration wait) {
  const auto seconds =
      std::max(std::chrono::ceil<std::chrono::seconds>(wait), std::chrono::seconds(1));
  return {limit,
          "the limit of this API key, " + what + ", is reached; try again in " +
              std::to_string(seconds.count()) + " s",
          seconds};
}

}  // namespace

void TokenBucket::SetPerMinute(int64_t per_minute, TimePoint now) {
  Refill(now);
  const bool fresh = per_minute_ == 0;
  per_minute_ = per_minute;
  const auto full = static_cast<double>(per_minute);
  level_ = fresh ? full : std::min(level_, full);
  at_ = now;
}

void TokenBucket::Refill(TimePoint now) {
  if (now <= at_) return;
  const auto full = static_cast<double>(per_minute_);
  level_ = std::min(full, level_ + Minutes(now - at_).count() * full);
  at_ = now;
}

Clock::duration TokenBucket::Take(int64_t amount, TimePoint now) {
  if (per_minute_ == 0) return Clock::duration::zero();
  Refill(now);
  const auto full = static_cast<double>(per_minute_);
  const double needed = std::min(static_cast<double>(amount), full);
  // Rounding of many small refills must not keep a full bucket from being full.
  constexpr double kSlack = 1e-6;
  if (level_ + kSlack >= needed) {
    level_ -= static_cast<double>(amount);
    return Clock::duration::zero();
  }
  return std::chrono::ceil<Clock::duration>(Minutes((needed - level_) / full));
}

void KeyUsage::SetLimits(const KeyLimits& limits, Clock::time_point now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limits_ = limits;
  requests_.SetPerMinute(limits.requests_per_minute, now);
  tokens_.SetPerMinute(limits.tokens_per_minute, now);
}

std::optional<LimitRefusal> KeyUsage::Begin(Clock::time_point now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (limits_.concurrent > 0 && in_work_ >= limits_.concurrent) {
    return Refusal("concurrent", std::to_string(limits_.concurrent) + " requests at a time",
                   Clock::duration::zero());
  }
  const Clock::duration wait = requests_.Take(1, now);
  if (wait > Clock::duration::zero()) {
    return Refusal("requests", std::to_string(limits_.requests_per_minute) + " requests per minute",
                   wait);
  }
  ++in_work_;
  return std::nullopt;
}

void KeyUsage::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --in_work_;
}

std::optional<LimitRefusal> KeyUsage::TakeTokens(int64_t tokens, Clock::time_point now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::duration wait = tokens_.Take(tokens, now);
  if (wait == Clock::duration::zero()) return std::nullopt;
  return Refusal("tokens", std::to_string(limits_.tokens_per_minute) + " tokens per minute", wait);
}

int64_t KeyUsage::in_work() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return in_work_;
}

}  // namespace pergola::gateway
