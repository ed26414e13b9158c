#include "gateway/status_pages.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

HttpResponse Ask(StatusPages& pages, std::string path) {
  HttpRequest request;
  request.method = "GET";
  request.path = std::move(path);
  HttpResponse answer;
  pages.Handle(std::move(request), [&](HttpResponse response) { answer = std::move(response); });
  return answer;
}

TEST(StatusPagesTest, AnswersItsThreePages) {
  auto metrics = std::make_shared<Metrics>();
  metrics->AddSource([] {
    return std::vector<service::MetricSample>{
        {"pergola_x", "An x.", service::MetricKind::kGauge, {}, 3, {}, {}}};
  });
  bool ready = true;
  StatusPages pages(metrics, [&] { return ready; });
  EXPECT_EQ(Ask(pages, "/healthz").status, 200);
  EXPECT_EQ(Ask(pages, "/readyz").status, 200);
  EXPECT_NE(Ask(pages, "/metrics").body.find("pergola_x 3"), std::string::npos);
  ready = false;
  EXPECT_EQ(Ask(pages, "/healthz").status, 200);
  EXPECT_EQ(Ask(pages, "/readyz").status, 503);
}

TEST(StatusPagesTest, KnowsNothingElse) {
  StatusPages pages(std::make_shared<Metrics>(), [] { return true; });
  EXPECT_TRUE(pages.Check("GET", "/metrics").method_allowed);
  EXPECT_FALSE(pages.Check("POST", "/metrics").method_allowed);
  EXPECT_FALSE(pages.Check("GET", "/v1/embeddings").path_known);
}

}  // namespace
}  // namespace pergola::gateway
