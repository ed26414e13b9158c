#include "gateway/live_routes.h"

#include <gtest/gtest.h>

#include <future>

#include "gateway/testing/ask.h"
#include "gateway/testing/fake_model.h"

namespace pergola::gateway {
namespace {

using testing::Ask;
using testing::FindHeader;
using testing::Question;

class LiveRoutesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Routes> Make(int64_t max_batch_inputs) {
    RoutesOptions options;
    options.models.push_back(model_.served);
    options.max_batch_inputs = max_batch_inputs;
    options.metrics = metrics_;
    return std::make_unique<Routes>(std::move(options));
  }
  HttpResponse Get(std::string path) {
    Question question;
    question.method = "GET";
    question.path = std::move(path);
    return Ask(live_, std::move(question));
  }
  int Embed(const std::string& input) {
    return Ask(live_, {.path = "/v1/embeddings", .body = R"({"model":"m","input":)" + input + "}"})
        .status;
  }

  testing::FakeModel model_ = testing::MakeFakeModel();
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  LiveRoutes live_{{metrics_, {}}};
};

TEST_F(LiveRoutesTest, IsAliveButNotReadyBeforeAModelIsKnown) {
  live_.SetReason("no server of the model answers");
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/metrics").status, 200);
  const HttpResponse ready = Get("/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, R"({"error":"not ready: no server of the model answers"})");
  const HttpResponse answer = Ask(live_, {.path = "/v1/embeddings", .body = "{}"});
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find(R"("type":"server_error")"), std::string::npos) << "the dialect's";
  ASSERT_NE(FindHeader(answer, "retry-after"), nullptr);
  EXPECT_EQ(*FindHeader(answer, "retry-after"), "1");
}

TEST_F(LiveRoutesTest, KnowsItsPathsFromTheStart) {
  EXPECT_TRUE(live_.Check("POST", "/v1/embeddings").takes_body);
  EXPECT_FALSE(live_.Check("GET", "/readyz").needs_auth);
  EXPECT_FALSE(live_.Check("GET", "/nowhere").path_known);
}

TEST_F(LiveRoutesTest, AnswersOnceRoutesAreInstalled) {
  live_.Install(Make(1));
  EXPECT_EQ(Get("/readyz").status, 200);
  EXPECT_EQ(Embed(R"("hello")"), 200);
  EXPECT_EQ(Embed(R"(["a","b"])"), 400);
  live_.Install(Make(2));
  EXPECT_EQ(Embed(R"(["a","b"])"), 200);
}

TEST_F(LiveRoutesTest, ARequestInWorkOutlivesItsRoutes) {
  service::InferenceCallback held;
  service::InferenceRequest kept;
  model_.service->set_intercept(
      [&](service::InferenceRequest& request, service::InferenceCallback& done) {
        if (held) return false;
        kept = std::move(request);
        held = std::move(done);
        return true;
      });
  live_.Install(Make(1));
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/embeddings";
  request.body = R"({"model":"m","input":"hello"})";
  request.received = service::Clock::now();
  request.cancel = std::make_shared<service::CancelToken>();
  std::promise<HttpResponse> answered;
  live_.Handle(std::move(request),
               [&](HttpResponse response) { answered.set_value(std::move(response)); });
  ASSERT_TRUE(held);
  for (int times = 0; times < 3; ++times) live_.Install(Make(2));
  EXPECT_EQ(Embed(R"(["a","b"])"), 200);
  held(testing::FakeService::Compute(kept));
  held = nullptr;
  EXPECT_EQ(answered.get_future().get().status, 200);
  live_.Install(Make(2));
}

}  // namespace
}  // namespace pergola::gateway
