// The place of a piece of work in a trace, as W3C Trace Context writes it in the header
// `traceparent`: 00-<32 hex digits of the trace>-<16 of the span>-<flags>.
//
//   TraceContext context = ParseTraceParent(header).value_or(TraceContext{});
//   context = context.valid() ? ChildOf(context) : BeginTrace(sampled);
//   metadata["traceparent"] = FormatTraceParent(context);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pergola::service {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace_id = {};  // all zero: no trace
  SpanId span_id = {};
  bool sampled = false;  // somebody wants to see its spans
  std::string state;     // of the header `tracestate`, passed on as it came; often empty
  bool valid() const { return trace_id != TraceId{} && span_id != SpanId{}; }
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// nullopt: not of that form, or an id of zeros. A version above 00 may have more behind the flags.
std::optional<TraceContext> ParseTraceParent(std::string_view text);
// Of the header `tracestate`: empty when it is too long to be passed on (512 bytes) or holds what
// no header may. What stands in it is its vendors' business.
std::string TraceStateOf(std::string_view header);
std::string FormatTraceParent(const TraceContext& context);

// Ids are random, not secret. Thread-safe.
TraceContext BeginTrace(bool sampled);
// Another span of the same trace.
TraceContext ChildOf(const TraceContext& parent);
SpanId MakeSpanId();

// Lower case.
std::string HexOf(const TraceId& id);
std::string HexOf(const SpanId& id);

}  // namespace pergola::service
