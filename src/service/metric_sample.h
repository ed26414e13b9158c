// What a module tells about its running, without knowing who collects it.
//
//   std::vector<service::MetricSample> Scheduler::Metrics() const {
//     return {{"pergola_queue_tokens", "Tokens that wait for the engine", MetricKind::kGauge,
//     {}, 17.0}};
//   }
//
// The gateway turns samples into Prometheus text (gateway/metrics.h). Plain values: taking a
// snapshot is the module's business, and it must be safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pergola::service {

enum class MetricKind { kCounter, kGauge, kHistogram };

struct MetricSample {
  std::string name;  // [a-zA-Z_][a-zA-Z0-9_]*; counters end in "_total"
  std::string help;  // one sentence
  MetricKind kind = MetricKind::kGauge;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0.0;  // counter, gauge; histogram: sum of the observations
  // Histogram only: upper bounds, rising, without +Inf; and the observations of each bucket (not
  // cumulative), one more than bounds for what lies above.
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
};

}  // namespace pergola::service
