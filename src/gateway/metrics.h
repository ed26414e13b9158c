// What the gateway counts, and /metrics: Prometheus text of it and of what other modules tell.
//
//   Metrics metrics;
//   metrics.AddSource([&scheduler] { return scheduler.Metrics(); });
//   metrics.CountRequest("/v1/embeddings", "POST", 200, seconds);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/metric_sample.h"

namespace pergola::gateway {

// Thread-safe.
class Metrics {
 public:
  using Source = std::function<std::vector<service::MetricSample>()>;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Asked at every scrape, from any thread; must outlive this or be safe to call afterwards.
  // Samples of one name must have one kind. A sample whose name or labels Prometheus would refuse
  // is left out.
  void AddSource(Source source);

  // `route` is the route's pattern, never what a client sent: labels must be few.
  void CountRequest(std::string_view route, std::string_view method, int status, double seconds);
  void CountTokens(int64_t tokens, int64_t inputs, int64_t truncated, int64_t cache_hits);

  // Content type "text/plain; version=0.0.4; charset=utf-8".
  std::string Render() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pergola::gateway
