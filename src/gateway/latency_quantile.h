// How long answers take: a quantile of the last ones, by size of the question.
//
//   LatencyQuantile p95(0.95);
//   p95.Add(tokens, latency);
//   if (const auto usual = p95.Get(tokens)) HedgeAfter(*usual);
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace pergola::gateway {

// Questions are told apart by powers of two of their tokens: a list takes longer than a line.
// Thread-compatible.
class LatencyQuantile {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr size_t kWindow = 256;  // answers that count, of each size
  static constexpr size_t kLeast = 32;    // from which on there is a quantile

  // `quantile` between 0 and 1.
  explicit LatencyQuantile(double quantile) : quantile_(quantile) {}

  void Add(int64_t tokens, Duration latency);
  // Nullopt: too few answers of that size yet.
  std::optional<Duration> Get(int64_t tokens) const;

 private:
  struct Size {
    std::vector<Duration> latencies;  // the last kWindow, in any order
    size_t next = 0;                  // place of the oldest, once there are kWindow
    size_t stale = 0;                 // answers since the quantile was taken
    std::optional<Duration> quantile;
  };
  static size_t SizeOf(int64_t tokens);

  const double quantile_;
  std::array<Size, 24> sizes_;
};

}  // namespace pergola::gateway
