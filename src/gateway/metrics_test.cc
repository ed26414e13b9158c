#include "gateway/metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace pergola::gateway {
namespace {

using service::MetricKind;
using service::MetricSample;

bool HasLine(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

RequestLog Log(std::string route, std::string method, int status, int milliseconds) {
  RequestLog log;
  log.route = std::move(route);
  log.method = std::move(method);
  log.status = status;
  log.duration = std::chrono::milliseconds(milliseconds);
  return log;
}

TEST(MetricsTest, CountsRequestsByRouteMethodAndStatus) {
  Metrics metrics;
  metrics.CountRequest(Log("/embed", "POST", 200, 3));
  metrics.CountRequest(Log("/embed", "POST", 200, 300));
  metrics.CountRequest(Log("", "BREW\"", 404, 1));
  const std::string text = metrics.Render();
  EXPECT_TRUE(HasLine(
      text, R"x(pergola_http_requests_total{method="POST",route="/embed",status="200"} 2)x"))
      << text;
  EXPECT_TRUE(HasLine(
      text, R"x(pergola_http_requests_total{method="(other)",route="(unknown)",status="404"} 1)x"))
      << text;
  EXPECT_TRUE(HasLine(
      text, R"x(pergola_http_request_duration_seconds_bucket{route="/embed",le="0.005"} 1)x"))
      << text;
  EXPECT_TRUE(HasLine(text, R"x(pergola_http_request_duration_seconds_count{route="/embed"} 2)x"));
}

TEST(MetricsTest, CountsTokensAndInputs) {
  Metrics metrics;
  metrics.CountTokens(30, 4, 1, 2);
  metrics.CountTokens(12, 1, 0, 0);
  const std::string text = metrics.Render();
  EXPECT_TRUE(HasLine(text, "pergola_tokens_total 42")) << text;
  EXPECT_TRUE(HasLine(text, "pergola_inputs_total 5"));
  EXPECT_TRUE(HasLine(text, "pergola_truncated_inputs_total 1"));
  EXPECT_TRUE(HasLine(text, "pergola_cached_inputs_total 2"));
}

TEST(MetricsTest, RendersSamplesOfSourcesAsOneFamilyPerName) {
  Metrics metrics;
  for (const char* model : {"a", "b"}) {
    metrics.AddSource([model] {
      return std::vector<MetricSample>{
          {"pergola_queue_tokens", "Waiting", MetricKind::kGauge, {{"model", model}}, 17.0, {}, {}},
          {"pergola_batch_sequences",
           "Sequences of a batch",
           MetricKind::kHistogram,
           {{"model", model}},
           21.0,
           {1, 4},
           {2, 3, 1}}};
    });
  }
  const std::string text = metrics.Render();
  EXPECT_TRUE(HasLine(text, R"x(pergola_queue_tokens{model="a"} 17)x")) << text;
  EXPECT_TRUE(HasLine(text, R"x(pergola_queue_tokens{model="b"} 17)x"));
  EXPECT_TRUE(HasLine(text, R"x(pergola_batch_sequences_bucket{model="a",le="4"} 5)x")) << text;
  EXPECT_TRUE(HasLine(text, R"x(pergola_batch_sequences_bucket{model="a",le="+Inf"} 6)x")) << text;
  EXPECT_TRUE(HasLine(text, R"x(pergola_batch_sequences_sum{model="a"} 21)x"));
  const size_t first = text.find("# TYPE pergola_queue_tokens gauge");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("# TYPE pergola_queue_tokens", first + 1), std::string::npos);
}

TEST(MetricsTest, LeavesOutWhatPrometheusWouldRefuse) {
  Metrics metrics;
  metrics.AddSource([] {
    return std::vector<MetricSample>{
        {"bad name", "", MetricKind::kGauge, {}, 1.0, {}, {}},
        {"bad_label", "", MetricKind::kGauge, {{"a-b", "c"}}, 1.0, {}, {}},
        {"bad_histogram", "", MetricKind::kHistogram, {}, 1.0, {1, 2}, {1}}};
  });
  const std::string text = metrics.Render();
  EXPECT_EQ(text.find("bad"), std::string::npos) << text;
}

}  // namespace
}  // namespace pergola::gateway
