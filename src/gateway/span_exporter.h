// Sends spans to a collector in the background: in batches, from a bounded queue, and never in the
// way of a request. What does not fit or cannot be sent is dropped and counted.
//
//   SpanExporter exporter({.service = "pergola-gateway", .post = [&](const std::string& json) {
//                            return client.PostJson("http://collector:4318/v1/traces", json); }});
//   exporter.Add(SpansOf(log, now));
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gateway/otlp_spans.h"
#include "pergola/status.h"
#include "service/metric_sample.h"

namespace pergola::gateway {

// Thread-safe.
class SpanExporter {
 public:
  struct Options {
    std::string service;
    // Sends one document; called on the exporter's thread, may take its time.
    std::function<Status(const std::string& json)> post;
    size_t max_queued = 8192;  // spans
    size_t max_batch = 512;    // spans of one document
    // How long spans wait for others when there are fewer than max_batch.
    std::chrono::milliseconds pause{1000};
    // How long after the end is asked for documents are still begun. A post that is under way then
    // is waited for: it must have a time limit of its own.
    std::chrono::milliseconds flush_timeout{2000};
  };

  explicit SpanExporter(Options options);
  // Sends what is queued, as long as sending succeeds and flush_timeout allows.
  ~SpanExporter();

  // Never waits for the collector. All or none of them.
  void Add(std::vector<Span> spans);

  std::vector<service::MetricSample> Metrics() const;

 private:
  void Run();

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Span> queue_;
  uint64_t sent_ = 0;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  service::Clock::time_point flush_until_;  // once stopping_
  std::thread thread_;
};

}  // namespace pergola::gateway
