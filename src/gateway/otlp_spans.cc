#include "gateway/otlp_spans.h"

#include "gateway/json_writer.h"
#include "gateway/request_trace.h"

namespace pergola::gateway {
namespace {

using std::chrono::nanoseconds;

int64_t UnixNanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

void AppendText(std::string_view key, std::string_view value, std::string* out) {
  out->append("{\"key\":");
  AppendJsonString(key, out);
  out->append(",\"value\":{\"stringValue\":");
  AppendJsonString(value, out);
  out->append("}}");
}

// OTLP writes 64-bit numbers as strings.
void AppendNumber(int64_t value, std::string* out) {
  out->push_back('"');
  AppendJsonInteger(value, out);
  out->push_back('"');
}

void AppendAttributes(const Span& span, std::string* out) {
  out->append(",\"attributes\":[");
  for (const auto& [key, value] : span.texts) {
    if (out->back() != '[') out->push_back(',');
    AppendText(key, value, out);
  }
  for (const auto& [key, value] : span.numbers) {
    if (out->back() != '[') out->push_back(',');
    out->append("{\"key\":");
    AppendJsonString(key, out);
    out->append(",\"value\":{\"intValue\":");
    AppendNumber(value, out);
    out->append("}}");
  }
  out->push_back(']');
}

void AppendSpan(const Span& span, std::string* out) {
  out->append("{\"traceId\":\"").append(service::HexOf(span.context.trace_id));
  out->append("\",\"spanId\":\"").append(service::HexOf(span.context.span_id));
  if (span.parent != service::SpanId{}) {
    out->append("\",\"parentSpanId\":\"").append(service::HexOf(span.parent));
  }
  out->push_back('"');
  if (!span.context.state.empty()) {
    out->append(",\"traceState\":");
    AppendJsonString(span.context.state, out);
  }
  out->append(",\"name\":");
  AppendJsonString(span.name, out);
  out->append(",\"kind\":");
  AppendJsonInteger(static_cast<int64_t>(span.kind), out);
  out->append(",\"startTimeUnixNano\":");
  AppendNumber(UnixNanoseconds(span.begin), out);
  out->append(",\"endTimeUnixNano\":");
  AppendNumber(UnixNanoseconds(span.begin) + span.length.count(), out);
  AppendAttributes(span, out);
  out->append(span.failed ? ",\"status\":{\"code\":2}}" : ",\"status\":{}}");
}

}  // namespace

std::vector<Span> SpansOf(const RequestLog& log, const TwoClocks& now) {
  std::vector<Span> spans;
  if (log.trace == nullptr || !log.trace->context().sampled) return spans;
  const RequestTrace& trace = *log.trace;
  const auto on_system_clock = [&now](service::Clock::time_point steady) {
    return now.system -
           std::chrono::duration_cast<std::chrono::system_clock::duration>(now.steady - steady);
  };
  Span whole;
  whole.context = trace.context();
  whole.parent = trace.parent();
  whole.name = log.method + " " + (log.route.empty() ? "(unknown)" : log.route);
  whole.kind = SpanKind::kServer;
  whole.begin =
      now.system - std::chrono::duration_cast<std::chrono::system_clock::duration>(log.duration);
  whole.length = log.duration;
  whole.texts = {{"http.request.method", log.method},
                 {"http.route", log.route},
                 {"pergola.request_id", log.request_id}};
  whole.numbers = {{"http.response.status_code", log.status}, {"pergola.tokens", trace.tokens()}};
  whole.failed = log.status >= 500;
  spans.push_back(std::move(whole));
  for (const Stage stage : kStages) {
    if (trace.length(stage) == nanoseconds::zero()) continue;
    Span part;
    part.context = service::ChildOf(trace.context());
    part.parent = trace.context().span_id;
    part.name = kStageNames[static_cast<size_t>(stage)];
    part.begin = on_system_clock(trace.begin(stage));
    part.length = trace.length(stage);
    spans.push_back(std::move(part));
  }
  return spans;
}

std::string RenderSpans(std::string_view service, std::span<const Span> spans) {
  std::string out = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[";
  AppendText("service.name", service, &out);
  out.push_back(',');
  AppendText("service.version", PERGOLA_VERSION, &out);
  out.append("]},\"scopeSpans\":[{\"scope\":{\"name\":\"pergola\"},\"spans\":[");
  for (const Span& span : spans) {
    if (out.back() != '[') out.push_back(',');
    AppendSpan(span, &out);
  }
  out.append("]}]}]}");
  return out;
}

}  // namespace pergola::gateway
