#include "gateway/metrics.h"

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <tuple>

namespace pergola::gateway {
namespace {

using prometheus::Counter;
using prometheus::Histogram;

const Histogram::BucketBoundaries& LatencyBounds() {
  static const Histogram::BucketBoundaries bounds = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
  return bounds;
}

std::string_view KnownMethod(std::string_view method) {
  for (const std::string_view known :
       {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    if (method == known) return known;
  }
  return "(other)";
}

prometheus::MetricType TypeOf(service::MetricKind kind) {
  switch (kind) {
    case service::MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case service::MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
    case service::MetricKind::kGauge:
      break;
  }
  return prometheus::MetricType::Gauge;
}

bool IsValid(const service::MetricSample& sample) {
  if (!prometheus::CheckMetricName(sample.name)) return false;
  for (const auto& [name, value] : sample.labels) {
    if (!prometheus::CheckLabelName(name)) return false;
  }
  return sample.kind != service::MetricKind::kHistogram ||
         sample.counts.size() == sample.bounds.size() + 1;
}

prometheus::ClientMetric ToClientMetric(const service::MetricSample& sample) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
  switch (sample.kind) {
    case service::MetricKind::kCounter:
      metric.counter.value = sample.value;
      break;
    case service::MetricKind::kGauge:
      metric.gauge.value = sample.value;
      break;
    case service::MetricKind::kHistogram: {
      uint64_t cumulative = 0;
      for (size_t i = 0; i < sample.counts.size(); ++i) {
        cumulative += sample.counts[i];
        const double bound =
            i < sample.bounds.size() ? sample.bounds[i] : std::numeric_limits<double>::infinity();
        metric.histogram.bucket.push_back({cumulative, bound});
      }
      metric.histogram.sample_count = cumulative;
      metric.histogram.sample_sum = sample.value;
      break;
    }
  }
  return metric;
}

// Samples of one name make one family, whichever source they come from.
void AddSamples(const std::vector<service::MetricSample>& samples,
                std::map<std::string, prometheus::MetricFamily>* families) {
  for (const service::MetricSample& sample : samples) {
    if (!IsValid(sample)) continue;
    prometheus::MetricFamily& family = (*families)[sample.name];
    family.name = sample.name;
    family.help = sample.help;
    family.type = TypeOf(sample.kind);
    family.metric.push_back(ToClientMetric(sample));
  }
}

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  prometheus::Family<Counter>& requests = prometheus::BuildCounter()
                                              .Name("pergola_http_requests_total")
                                              .Help("Answers by route, method and status")
                                              .Register(registry);
  prometheus::Family<Histogram>& latency =
      prometheus::BuildHistogram()
          .Name("pergola_http_request_duration_seconds")
          .Help("From the whole request received to the answer written, by route")
          .Register(registry);
  prometheus::Family<Counter>& limited =
      prometheus::BuildCounter()
          .Name("pergola_key_limited_total")
          .Help("Requests refused because a key is at its limit, by limit")
          .Register(registry);
  Counter& tokens = Single("pergola_tokens_total", "Tokens embedded, special tokens included");
  Counter& inputs = Single("pergola_inputs_total", "Texts and id lists embedded");
  Counter& truncated =
      Single("pergola_truncated_inputs_total", "Inputs that were cut to the limit");
  Counter& cache_hits = Single("pergola_cached_inputs_total", "Inputs answered from the cache");
  Counter& repeated =
      Single("pergola_repeated_answers_total", "Requests answered as one before, by their body");

  // Family::Add looks a label set up under a lock and hashes strings; routes are few, so keep them.
  using RequestKey = std::tuple<std::string, std::string, int>;
  std::shared_mutex mutex;  // guards the next three
  std::map<RequestKey, Counter*> request_counters;
  std::map<std::string, Histogram*, std::less<>> latencies;
  std::vector<Source> sources;

  Counter& Single(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::AddSource(Source source) {
  const std::unique_lock lock(state_->mutex);
  state_->sources.push_back(std::move(source));
}

void Metrics::CountRequest(const RequestLog& log) {
  const std::string_view route = log.route.empty() ? std::string_view("(unknown)") : log.route;
  const std::string_view method = KnownMethod(log.method);
  const int status = log.status;
  const double seconds = std::chrono::duration<double>(log.duration).count();
  State::RequestKey key{std::string(route), std::string(method), status};
  {
    const std::shared_lock lock(state_->mutex);
    const auto counter = state_->request_counters.find(key);
    const auto histogram = state_->latencies.find(route);
    if (counter != state_->request_counters.end() && histogram != state_->latencies.end()) {
      counter->second->Increment();
      histogram->second->Observe(seconds);
      return;
    }
  }
  const std::unique_lock lock(state_->mutex);
  Counter*& counter = state_->request_counters[key];
  if (counter == nullptr) {
    counter = &state_->requests.Add({{"route", std::string(route)},
                                     {"method", std::string(method)},
                                     {"status", std::to_string(status)}});
  }
  Histogram*& histogram = state_->latencies[std::string(route)];
  if (histogram == nullptr) {
    histogram = &state_->latency.Add({{"route", std::string(route)}}, LatencyBounds());
  }
  counter->Increment();
  histogram->Observe(seconds);
}

void Metrics::CountTokens(int64_t tokens, int64_t inputs, int64_t truncated, int64_t cache_hits) {
  state_->tokens.Increment(static_cast<double>(tokens));
  state_->inputs.Increment(static_cast<double>(inputs));
  if (truncated > 0) state_->truncated.Increment(static_cast<double>(truncated));
  if (cache_hits > 0) state_->cache_hits.Increment(static_cast<double>(cache_hits));
}

void Metrics::CountRepeated() { state_->repeated.Increment(); }

void Metrics::CountLimited(std::string_view limit) {
  state_->limited.Add({{"limit", std::string(limit)}}).Increment();
}

std::string Metrics::Render() const {
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  std::vector<Source> sources;
  {
    const std::shared_lock lock(state_->mutex);
    sources = state_->sources;
  }
  std::map<std::string, prometheus::MetricFamily> told;
  for (const Source& source : sources) AddSamples(source(), &told);
  for (auto& [name, family] : told) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

HttpResponse Metrics::Response() const {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = Render();
  return response;
}

}  // namespace pergola::gateway
