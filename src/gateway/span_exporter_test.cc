#include "gateway/span_exporter.h"

#include <gtest/gtest.h>

#include <future>

#include "core/testing/eventually.h"
#include "gateway/json_reader.h"
#include "gateway/request_trace.h"

namespace pergola::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Takes documents, refuses them, or makes whoever sends wait.
class FakeCollector {
 public:
  Status Post(const std::string& json) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++posts_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !holding_; });
    if (!failing_) documents_.push_back(json);
    return failing_ ? UnavailableError("no collector") : OkStatus();
  }
  void Set(bool holding, bool failing) {
    const std::lock_guard<std::mutex> lock(mutex_);
    holding_ = holding;
    failing_ = failing;
    changed_.notify_all();
  }
  void AwaitPosts(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return posts_ >= count; });
  }
  std::vector<std::string> documents() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return documents_;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool holding_ = false;
  bool failing_ = false;
  int posts_ = 0;
  std::vector<std::string> documents_;
};

class SpanExporterTest : public ::testing::Test {
 protected:
  void Start(size_t max_queued, size_t max_batch) {
    exporter_ = std::make_unique<SpanExporter>(SpanExporter::Options{
        "test", [this](const std::string& json) { return collector_.Post(json); }, max_queued,
        max_batch, std::chrono::hours(1)});
  }
  static std::vector<Span> Spans(size_t count) {
    std::vector<Span> spans(count);
    for (Span& span : spans) span.context = service::BeginTrace(true);
    return spans;
  }
  double Metric(const std::string& name) {
    for (const auto& sample : exporter_->Metrics()) {
      if (sample.name == name) return sample.value;
    }
    return -1;
  }

  FakeCollector collector_;
  std::unique_ptr<SpanExporter> exporter_;
};

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(SpanExporterTest, SendsInBatchesAndTheRestAtTheEnd) {
  Start(100, 4);
  for (int i = 0; i < 5; ++i) exporter_->Add(Spans(2));
  exporter_.reset();
  const std::vector<std::string> documents = collector_.documents();
  size_t spans = 0;
  for (const std::string& document : documents) {
    EXPECT_LE(CountOf(document, "\"spanId\""), 4u);
    spans += CountOf(document, "\"spanId\"");
    EXPECT_TRUE(JsonDocument::Parse(document).ok()) << document;
  }
  EXPECT_EQ(spans, 10u);
}

TEST_F(SpanExporterTest, ASlowCollectorHoldsNobodyUpAndWhatDoesNotFitIsCounted) {
  Start(6, 2);
  collector_.Set(/*holding=*/true, /*failing=*/false);
  exporter_->Add(Spans(2));
  collector_.AwaitPosts(1);
  for (int i = 0; i < 5; ++i) exporter_->Add(Spans(2));
  EXPECT_EQ(Metric("pergola_spans_dropped_total"), 4);
  EXPECT_EQ(Metric("pergola_spans_queued"), 6);
  collector_.Set(false, false);
  collector_.AwaitPosts(4);
  exporter_.reset();
  EXPECT_EQ(collector_.documents().size(), 4u);
}

TEST_F(SpanExporterTest, WhatCannotBeSentIsCounted) {
  Start(100, 2);
  collector_.Set(false, /*failing=*/true);
  exporter_->Add(Spans(2));
  collector_.AwaitPosts(1);
  ASSERT_TRUE(Eventually([&] { return Metric("pergola_spans_dropped_total") > 0; }));
  EXPECT_EQ(Metric("pergola_spans_dropped_total"), 2);
  EXPECT_EQ(Metric("pergola_spans_sent_total"), 0);
}

TEST(SpanExporterEndTest, ASlowCollectorDoesNotHoldUpTheEnd) {
  constexpr milliseconds kPatience{5};
  int posts = 0;
  SpanExporter::Options options;
  options.service = "test";
  options.max_batch = 1;
  options.flush_timeout = kPatience;
  std::promise<void> begun;
  std::promise<void> ending;
  options.post = [&, went = ending.get_future().share()](const std::string&) {
    if (++posts == 1) begun.set_value();
    went.wait();
    const auto until = service::Clock::now() + kPatience;
    while (service::Clock::now() < until) std::this_thread::yield();
    return OkStatus();
  };
  {
    SpanExporter exporter(std::move(options));
    exporter.Add(std::vector<Span>(1000));
    begun.get_future().wait();
    ending.set_value();
  }
  EXPECT_LT(posts, 1000);
}

TEST(OtlpSpansTest, ARequestIsASpanWithItsStagesBelow) {
  const auto given =
      service::ParseTraceParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  const auto trace = std::make_shared<RequestTrace>(*given, false);
  const TwoClocks now{std::chrono::system_clock::time_point(std::chrono::hours(500000)),
                      service::Clock::time_point(std::chrono::hours(2))};
  trace->Add(Stage::kQueue, now.steady - milliseconds(8), milliseconds(3));
  trace->Add(Stage::kCompute, now.steady - milliseconds(5), milliseconds(4));
  trace->set_tokens(17);
  RequestLog log;
  log.method = "POST";
  log.route = "/v1/embeddings";
  log.status = 200;
  log.duration = milliseconds(10);
  log.request_id = "r1";
  log.trace = trace;
  const std::vector<Span> spans = SpansOf(log, now);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].name, "POST /v1/embeddings");
  EXPECT_EQ(spans[0].context.trace_id, given->trace_id);
  EXPECT_EQ(spans[0].parent, given->span_id);
  EXPECT_EQ(spans[0].begin, now.system - milliseconds(10));
  EXPECT_EQ(spans[1].name, "queue");
  EXPECT_EQ(spans[1].parent, spans[0].context.span_id);
  EXPECT_EQ(spans[1].begin, now.system - milliseconds(8));
  EXPECT_EQ(spans[2].name, "compute");
  EXPECT_EQ(spans[2].length, milliseconds(4));
  const std::string json = RenderSpans("pergola-gateway", spans);
  EXPECT_TRUE(JsonDocument::Parse(json).ok()) << json;
  for (const char* part :
       {R"("traceId":"0af7651916cd43dd8448eb211c80319c")", R"("parentSpanId":"b7ad6b7169203331")",
        R"("startTimeUnixNano":"1799999999990000000")",
        R"("endTimeUnixNano":"1800000000000000000")",
        R"({"key":"pergola.tokens","value":{"intValue":"17"}})",
        R"({"key":"service.name","value":{"stringValue":"pergola-gateway"}})"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
}

TEST(OtlpSpansTest, WhatIsNotSampledMakesNoSpans) {
  RequestLog log;
  log.trace = std::make_shared<RequestTrace>(service::TraceContext{}, /*sample=*/false);
  EXPECT_TRUE(SpansOf(log, {}).empty());
}

}  // namespace
}  // namespace pergola::gateway
