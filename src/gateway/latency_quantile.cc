#include "gateway/latency_quantile.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pergola::gateway {

size_t LatencyQuantile::SizeOf(int64_t tokens) {
  const auto width = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(tokens, 1))) - 1;
  return std::min<size_t>(static_cast<size_t>(width), std::tuple_size_v<decltype(sizes_)> - 1);
}

void LatencyQuantile::Add(int64_t tokens, Duration latency) {
  constexpr size_t kRenewal = 16;  // the quantile of 256 numbers moves slowly
  Size& size = sizes_[SizeOf(tokens)];
  if (size.latencies.size() < kWindow) {
    size.latencies.push_back(latency);
  } else {
    size.latencies[size.next] = latency;
    size.next = (size.next + 1) % kWindow;
  }
  ++size.stale;
  if (size.latencies.size() < kLeast || (size.quantile && size.stale < kRenewal)) return;
  std::vector<Duration> sorted = size.latencies;
  const auto rank =
      static_cast<std::ptrdiff_t>(std::ceil(quantile_ * static_cast<double>(sorted.size())) - 1);
  const auto place = sorted.begin() + std::max<std::ptrdiff_t>(rank, 0);
  std::nth_element(sorted.begin(), place, sorted.end());
  size.quantile = *place;
  size.stale = 0;
}

std::optional<LatencyQuantile::Duration> LatencyQuantile::Get(int64_t tokens) const {
  return sizes_[SizeOf(tokens)].quantile;
}

}  // namespace pergola::gateway
