#include "gateway/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pergola::gateway {

SpanExporter::SpanExporter(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Run(); });
}

SpanExporter::~SpanExporter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    flush_until_ = service::Clock::now() + options_.flush_timeout;
  }
  changed_.notify_all();
  thread_.join();
}

void SpanExporter::Add(std::vector<Span> spans) {
  if (spans.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (queue_.size() + spans.size() > options_.max_queued) {
    dropped_ += spans.size();
    return;
  }
  std::move(spans.begin(), spans.end(), std::back_inserter(queue_));
  if (queue_.size() >= options_.max_batch) changed_.notify_all();
}

void SpanExporter::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait_for(lock, options_.pause,
                      [this] { return stopping_ || queue_.size() >= options_.max_batch; });
    if (stopping_ && service::Clock::now() >= flush_until_) {
      dropped_ += queue_.size();
      queue_.clear();
    }
    if (queue_.empty()) {
      if (stopping_) return;
      continue;
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), options_.max_batch));
    const std::vector<Span> batch(std::make_move_iterator(queue_.begin()),
                                  std::make_move_iterator(queue_.begin() + count));
    queue_.erase(queue_.begin(), queue_.begin() + count);
    lock.unlock();
    const Status status = options_.post(RenderSpans(options_.service, batch));
    lock.lock();
    (status.ok() ? sent_ : dropped_) += batch.size();
    if (!status.ok() && stopping_) {
      dropped_ += queue_.size();
      queue_.clear();
    }
  }
}

std::vector<service::MetricSample> SpanExporter::Metrics() const {
  using service::MetricKind;
  const auto sample = [](std::string name, std::string help, MetricKind kind, uint64_t value) {
    return service::MetricSample{
        std::move(name), std::move(help), kind, {}, static_cast<double>(value), {}, {}};
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  return {
      sample("pergola_spans_sent_total", "Spans of traces that the collector took.",
             MetricKind::kCounter, sent_),
      sample("pergola_spans_dropped_total", "Spans that found the queue full or could not be sent.",
             MetricKind::kCounter, dropped_),
      sample("pergola_spans_queued", "Spans that wait to be sent.", MetricKind::kGauge,
             queue_.size()),
  };
}

}  // namespace pergola::gateway
