// When what was done of one request: for the access log, and for traces.
//
// Made with the request by its connection; the routes write, the connection's observer reads. A
// stage that has not happened has length zero. Times are on the steady clock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "service/inference_service.h"
#include "service/trace_context.h"

namespace pergola::gateway {

enum class Stage { kTokenise, kQueue, kCompute, kRender };
inline constexpr std::array<Stage, 4> kStages = {Stage::kTokenise, Stage::kQueue, Stage::kCompute,
                                                 Stage::kRender};
inline constexpr std::array<const char*, 4> kStageNames = {"tokenise", "queue", "compute",
                                                           "render"};

// Thread-safe: a request that is given up may still be worked on while it is logged.
class RequestTrace {
 public:
  // `given`: the client's, or one that is not valid: then a trace is begun.
  RequestTrace(const service::TraceContext& given, bool sample)
      : context_(given.valid() ? service::ChildOf(given) : service::BeginTrace(sample)),
        parent_(given.valid() ? given.span_id : service::SpanId{}) {}

  const service::TraceContext& context() const { return context_; }  // of this request's own span
  const service::SpanId& parent() const { return parent_; }  // zeros: the first of its trace

  // A stage that goes on in pieces began with the first.
  void Add(Stage stage, service::Clock::time_point begin, std::chrono::nanoseconds length) {
    Times& times = of(stage);
    service::Clock::rep none = 0;
    times.begin.compare_exchange_strong(none, begin.time_since_epoch().count());
    times.length.fetch_add(length.count(), std::memory_order_relaxed);
  }
  service::Clock::time_point begin(Stage stage) const {
    return service::Clock::time_point(
        service::Clock::duration(of(stage).begin.load(std::memory_order_relaxed)));
  }
  std::chrono::nanoseconds length(Stage stage) const {
    return std::chrono::nanoseconds(of(stage).length.load(std::memory_order_relaxed));
  }

  void set_tokens(int64_t tokens) { tokens_.store(tokens, std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

 private:
  struct Times {
    std::atomic<service::Clock::rep> begin = 0;
    std::atomic<int64_t> length = 0;  // nanoseconds
  };
  Times& of(Stage stage) { return times_[static_cast<size_t>(stage)]; }
  const Times& of(Stage stage) const { return times_[static_cast<size_t>(stage)]; }

  const service::TraceContext context_;
  const service::SpanId parent_;
  std::array<Times, 4> times_;
  std::atomic<int64_t> tokens_ = 0;
};

}  // namespace pergola::gateway
