// What the gateway counts, and /metrics: Prometheus text of it and of what other modules tell.
//
//   Metrics metrics;
//   metrics.AddSource([&scheduler] { return scheduler.Metrics(); });
//   server_options.observer = [&](const RequestLog& log) { metrics.CountRequest(log); };
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http_server.h"
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

  // Labels are the route's pattern and known methods, never what a client sent: they must be few.
  void CountRequest(const RequestLog& log);
  // What the routes know: inputs embedded, their tokens, how many were cut, how many a cache
  // answered.
  void CountTokens(int64_t tokens, int64_t inputs, int64_t truncated, int64_t cache_hits);

  // A request answered as one before, by its body alone.
  void CountRepeated();

  // A request refused because its key is at a limit: "requests", "tokens" or "concurrent".
  void CountLimited(std::string_view limit);

  // Prometheus text, and it as the answer to GET /metrics.
  std::string Render() const;
  HttpResponse Response() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pergola::gateway
