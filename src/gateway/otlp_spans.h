// Spans, and how OTLP writes them: the JSON of an ExportTraceServiceRequest, as a collector takes
// it at /v1/traces. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gateway/http_server.h"
#include "service/trace_context.h"

namespace pergola::gateway {

enum class SpanKind { kInternal = 1, kServer = 2 };  // OTLP's numbers

struct Span {
  service::TraceContext context;
  service::SpanId parent = {};  // zeros: none
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  std::chrono::system_clock::time_point begin;
  std::chrono::nanoseconds length{0};
  std::vector<std::pair<std::string, std::string>> texts;  // attributes
  std::vector<std::pair<std::string, int64_t>> numbers;    // attributes
  bool failed = false;
};

// The span of a request and those of its stages. None when it is not sampled or has no trace.
// `now`: both clocks at one moment.
struct TwoClocks {
  std::chrono::system_clock::time_point system;
  service::Clock::time_point steady;
};
std::vector<Span> SpansOf(const RequestLog& log, const TwoClocks& now);

// `service`: what the process is called, "pergola-gateway".
std::string RenderSpans(std::string_view service, std::span<const Span> spans);

}  // namespace pergola::gateway
