#include "gateway/routes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gateway/json_reader.h"
#include "gateway/key_usage.h"
#include "gateway/testing/ask.h"
#include "gateway/testing/fake_model.h"

namespace pergola::gateway {
namespace {

using service::Clock;
using testing::Ask;
using testing::FindHeader;
using testing::Question;

constexpr char kOneText[] = R"({"model":"m","input":"hello"})";

class RoutesTest : public ::testing::Test {
 protected:
  RoutesOptions Options() {
    RoutesOptions options;
    options.models.push_back(model_.served);
    options.num_workers = 2;
    return options;
  }

  // Every request is answered with `status`.
  void FailWith(Status status) {
    model_.service->set_intercept(
        [status](service::InferenceRequest&, service::InferenceCallback& done) {
          done(status);
          return true;
        });
  }

  HttpResponse Post(Routes& routes, std::string path, std::string body) {
    return Ask(routes, {.path = std::move(path), .body = std::move(body)});
  }

  HttpResponse Get(Routes& routes, std::string path) {
    Question question;
    question.method = "GET";
    question.path = std::move(path);
    return Ask(routes, std::move(question));
  }

  testing::FakeModel model_ = testing::MakeFakeModel();
};

TEST_F(RoutesTest, MapsEveryServiceErrorToItsStatus) {
  const std::pair<Status, int> cases[] = {
      {InvalidArgumentError("x"), 400},   {NotFoundError("x"), 404},
      {ResourceExhaustedError("x"), 429}, {UnavailableError("x"), 503},
      {DeadlineExceededError("x"), 504},  {InternalError("x"), 500},
      {DataLossError("x"), 500},          {UnauthenticatedError("x"), 401},
      {CancelledError("x"), 499},
  };
  Routes routes(Options());
  for (const auto& [status, expected] : cases) {
    FailWith(status);
    const HttpResponse response = Post(routes, "/v1/embeddings", kOneText);
    EXPECT_EQ(response.status, expected) << status.ToString();
    const bool retry = expected == 429 || expected == 503;
    EXPECT_EQ(FindHeader(response, "retry-after") != nullptr, retry) << status.ToString();
  }
}

TEST_F(RoutesTest, OverloadIsTheSameForAStringAndAListOfOne) {
  Routes routes(Options());
  FailWith(ResourceExhaustedError("too many tokens are queued"));
  const HttpResponse text = Post(routes, "/embed", R"({"inputs":"a"})");
  const HttpResponse list = Post(routes, "/embed", R"({"inputs":["a"]})");
  EXPECT_EQ(text.status, 429);
  EXPECT_EQ(text.body, list.body);
  EXPECT_EQ(text.body, R"({"error":"too many tokens are queued","error_type":"Overloaded"})");
}

TEST_F(RoutesTest, ANumberThatIsNotFiniteIs500AndNeverInTheAnswer) {
  model_.service->set_intercept(
      [](service::InferenceRequest& request, service::InferenceCallback& done) {
        service::InferenceOutput output = testing::FakeService::Compute(request);
        auto changed = std::make_shared<service::SequenceOutput>(*output.sequences[0]);
        (*changed)[OutputKind::kEmbedding].values[0] = std::numeric_limits<float>::quiet_NaN();
        output.sequences[0] = changed;
        done(std::move(output));
        return true;
      });
  Routes routes(Options());
  const HttpResponse response = Post(routes, "/v1/embeddings", kOneText);
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(response.body.find("finite"), std::string::npos);
}

TEST_F(RoutesTest, AServiceThatBreaksItsPromiseIs500) {
  model_.service->set_intercept([](service::InferenceRequest&, service::InferenceCallback& done) {
    done(service::InferenceOutput{});
    return true;
  });
  Routes routes(Options());
  EXPECT_EQ(Post(routes, "/v1/embeddings", kOneText).status, 500);
}

TEST_F(RoutesTest, PassesModelIdsDeadlineAndCancelToTheService) {
  service::InferenceRequest seen;
  model_.service->set_intercept(
      [&seen](service::InferenceRequest& request, service::InferenceCallback&) {
        seen = request;
        return false;
      });
  Routes routes(Options());
  Question question{.path = "/v1/embeddings", .body = kOneText};
  question.deadline = Clock::now() + std::chrono::hours(1);
  EXPECT_EQ(Ask(routes, question).status, 200);
  EXPECT_EQ(seen.model, "org/fake");
  EXPECT_EQ(seen.deadline, question.deadline);
  EXPECT_EQ(seen.cancel, question.cancel);
  EXPECT_EQ(seen.sequences, (std::vector<Sequence>{{{1, 50, 2}}}));
}

TEST_F(RoutesTest, WorkPastItsDeadlineOrWithoutAClientIsNotSubmitted) {
  bool submitted = false;
  model_.service->set_intercept(
      [&submitted](service::InferenceRequest&, service::InferenceCallback&) {
        submitted = true;
        return false;
      });
  Routes routes(Options());
  Question late{.path = "/v1/embeddings", .body = kOneText};
  late.deadline = Clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(Ask(routes, late).status, 504);
  Question gone{.path = "/v1/embeddings", .body = kOneText};
  gone.cancel->Cancel();
  EXPECT_EQ(Ask(routes, gone).status, 499);
  EXPECT_FALSE(submitted);
}

TEST_F(RoutesTest, ARequestWithoutADeadlineGetsTheDefaultAndIsCancelled) {
  service::InferenceCallback held;
  model_.service->set_intercept(
      [&held](service::InferenceRequest&, service::InferenceCallback& done) {
        held = std::move(done);
        return true;
      });
  RoutesOptions options = Options();
  options.default_timeout = std::chrono::milliseconds(5);
  Routes routes(std::move(options));
  Question question{.path = "/v1/embeddings", .body = kOneText};
  EXPECT_EQ(Ask(routes, question).status, 504);
  EXPECT_TRUE(question.cancel->cancelled());
  // Answers nobody and does no harm; the routes wait for it.
  std::exchange(held, nullptr)(CancelledError("late"));
}

TEST_F(RoutesTest, TheDestructorWaitsForWhatIsWithTheService) {
  service::InferenceCallback held;
  model_.service->set_intercept(
      [&held](service::InferenceRequest& request, service::InferenceCallback& done) {
        held = [done = std::move(done), request](Result<service::InferenceOutput>) {
          done(testing::FakeService::Compute(request));
        };
        return true;
      });
  std::promise<HttpResponse> promise;
  auto routes = std::make_unique<Routes>(Options());
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/embeddings";
  request.body = kOneText;
  request.received = Clock::now();
  request.deadline = Clock::now() + std::chrono::hours(1);
  request.cancel = std::make_shared<service::CancelToken>();
  routes->Handle(std::move(request),
                 [&](HttpResponse response) { promise.set_value(std::move(response)); });
  std::thread service([&held] {
    const service::InferenceCallback done = std::exchange(held, nullptr);
    done(CancelledError(""));
  });
  routes.reset();
  service.join();
  EXPECT_EQ(promise.get_future().get().status, 200);
}

TEST_F(RoutesTest, ALargeAnswerIsStreamedAndEqualsTheHeldOne) {
  std::string body = R"({"inputs":[)";
  for (int i = 0; i < 2000; ++i)
    body += std::string(i > 0 ? "," : "") + "\"" + std::to_string(i) + " b c d e f g h i j\"";
  body += "]}";
  // 2,000 x 8 numbers are less than what is held; token vectors of 12 tokens are more with wide
  // rows.
  model_.service->set_intercept(
      [](service::InferenceRequest& request, service::InferenceCallback& done) {
        service::InferenceOutput output;
        for (const Sequence& sequence : request.sequences) {
          auto rows = std::make_shared<service::SequenceOutput>();
          (*rows)[OutputKind::kTokenVectors] = {sequence.tokens(), 64,
                                                std::vector<float>(sequence.ids.size() * 64, 0.5f)};
          output.sequences.push_back(std::move(rows));
        }
        done(std::move(output));
        return true;
      });
  Routes routes(Options());
  HttpRequest request;
  std::promise<HttpResponse> promise;
  request.method = "POST";
  request.path = "/embed_all";
  request.body = body;
  request.received = Clock::now();
  request.cancel = std::make_shared<service::CancelToken>();
  routes.Handle(std::move(request),
                [&](HttpResponse response) { promise.set_value(std::move(response)); });
  HttpResponse response = promise.get_future().get();
  ASSERT_EQ(response.status, 200);
  ASSERT_TRUE(response.next_chunk);
  size_t chunks = 0;
  size_t largest = response.body.size();
  std::string whole = response.body;
  for (bool more = true; more; ++chunks) {
    std::string chunk;
    more = response.next_chunk(&chunk);
    largest = std::max(largest, chunk.size());
    whole += chunk;
  }
  EXPECT_GT(chunks, 3u);
  EXPECT_LT(largest, size_t{1} << 21);
  const auto document = JsonDocument::Parse(whole);
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  EXPECT_EQ((*document)->root().size(), 2000u);
}

TEST_F(RoutesTest, LargeBodiesAreWorkedOffTheCallingThread) {
  std::thread::id worked;
  model_.service->set_intercept([&worked](service::InferenceRequest&, service::InferenceCallback&) {
    worked = std::this_thread::get_id();
    return false;
  });
  Routes routes(Options());
  const std::string padding(4000, ' ');
  EXPECT_EQ(Post(routes, "/v1/embeddings", kOneText + padding).status, 200);
  EXPECT_NE(worked, std::this_thread::get_id());
  EXPECT_EQ(Post(routes, "/v1/embeddings", kOneText).status, 200);
  EXPECT_EQ(worked, std::this_thread::get_id());
}

TEST_F(RoutesTest, StrictModelRefusesOtherNamesInEveryDialect) {
  RoutesOptions options = Options();
  options.strict_model = true;
  Routes routes(std::move(options));
  const std::pair<const char*, const char*> refused[] = {
      {"/v1/embeddings", R"({"model":"nope","input":"a"})"},
      {"/api/embed", R"({"model":"nope","input":"a"})"},
      {"/v2/embed", R"({"model":"nope","texts":["a"]})"},
      {"/v1/embed", R"({"model":"nope","texts":["a"]})"},
      {"/score", R"({"model":"nope","text_1":"a","text_2":"a"})"},
      {"/api/show", R"({"model":"nope"})"},
      {"/v1/rerank", R"({"model":"nope","query":"a","documents":["a"]})"},
  };
  for (const auto& [path, body] : refused) EXPECT_EQ(Post(routes, path, body).status, 404) << path;
  const HttpResponse response = Post(routes, "/v1/embeddings", refused[0].second);
  EXPECT_NE(response.body.find(R"("code":"model_not_found")"), std::string::npos);
  EXPECT_EQ(Post(routes, "/v1/embeddings", R"({"model":"org/fake","input":"a"})").status, 200);
  EXPECT_EQ(Post(routes, "/api/embed", R"({"model":"org/fake:latest","input":"a"})").status, 200);
  EXPECT_EQ(Post(routes, "/api/embed", R"({"input":"a"})").status, 200);
}

TEST_F(RoutesTest, TwoModelsAreToldApartByName) {
  testing::FakeModel other = testing::MakeFakeModel(testing::FakeModelInfo("second"));
  std::string asked;
  other.service->set_intercept(
      [&asked](service::InferenceRequest& request, service::InferenceCallback&) {
        asked = request.model;
        return false;
      });
  RoutesOptions options = Options();
  options.models.push_back(other.served);
  Routes routes(std::move(options));
  EXPECT_EQ(Post(routes, "/v1/embeddings", R"({"model":"second","input":"a"})").status, 200);
  EXPECT_EQ(asked, "second");
  EXPECT_EQ(Post(routes, "/v1/embeddings", R"({"model":"third","input":"a"})").status, 404);
}

TEST_F(RoutesTest, MatryoshkaWidthsAreTheOnlyOnesUnlessAllowed) {
  model_.served.info.matryoshka_widths = {8, 4, 2};
  const std::string three = R"({"model":"m","input":"a","dimensions":3})";
  const std::string four = R"({"model":"m","input":"a","dimensions":4})";
  Routes routes(Options());
  const HttpResponse refused = Post(routes, "/v1/embeddings", three);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("8, 4, 2"), std::string::npos) << refused.body;
  EXPECT_EQ(Post(routes, "/v1/embeddings", four).status, 200);
  RoutesOptions any = Options();
  any.allow_any_dimensions = true;
  Routes lenient(std::move(any));
  EXPECT_EQ(Post(lenient, "/v1/embeddings", three).status, 200);
}

TEST_F(RoutesTest, LongTextsAreAveragedOnlyWhenAsked) {
  std::string text;
  for (int word = 0; word < 17; ++word) text += "w ";  // 14 and 3 beside two special tokens each
  const std::string body = R"({"model":"m","input":[")" + text + R"(","w"])";
  Routes routes(Options());
  EXPECT_EQ(Post(routes, "/v1/embeddings", body + "}").status, 400);
  const HttpResponse asked = Post(routes, "/v1/embeddings", body + R"(,"average_long":true})");
  EXPECT_EQ(asked.status, 200);
  EXPECT_NE(asked.body.find(R"("prompt_tokens":24)"), std::string::npos) << asked.body;
  RoutesOptions options = Options();
  options.average_long = true;
  Routes averaging(std::move(options));
  const HttpResponse told = Post(averaging, "/v1/embeddings", body + "}");
  EXPECT_EQ(told.body.substr(0, 200), asked.body.substr(0, 200));
  EXPECT_EQ(Post(averaging, "/v1/embeddings", body + R"(,"average_long":false})").status, 400);
  // TEI cuts unless averaging; ids are cut or refused as ever.
  const std::string tei = R"({"inputs":")" + text + R"("})";
  EXPECT_NE(Post(averaging, "/embed", tei).body, Post(routes, "/embed", tei).body);
  EXPECT_EQ(Post(averaging, "/v1/embeddings",
                 R"({"model":"m","input":[5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5]})")
                .status,
            400);
}

TEST_F(RoutesTest, AModelThatDoesNotNormaliseDoesSoOnlyWhenAsked) {
  model_.served.info.normalises = false;
  Routes routes(Options());
  const std::string raw = Post(routes, "/v1/embeddings", kOneText).body;
  EXPECT_NE(raw.find("[0,0,0,0,0,3,4,0]"), std::string::npos) << raw;
  const std::string unit =
      Post(routes, "/v1/embeddings", R"({"model":"m","input":"hello","normalize":true})").body;
  EXPECT_NE(unit.find("[0,0,0,0,0,0.6,0.8,0]"), std::string::npos) << unit;
}

TEST_F(RoutesTest, TokenizeStopsAtItsLimit) {
  RoutesOptions options = Options();
  options.max_tokenize_tokens = 6;
  Routes routes(std::move(options));
  EXPECT_EQ(Post(routes, "/tokenize", R"({"inputs":["a","b"]})").status, 200);
  const HttpResponse refused = Post(routes, "/tokenize", R"({"inputs":["a","b c"]})");
  EXPECT_EQ(refused.status, 422);
  EXPECT_NE(refused.body.find("6 tokens"), std::string::npos);
}

TEST_F(RoutesTest, ReadinessIsAForwardPassAndRemembersOne) {
  int64_t passes = 0;
  std::vector<Sequence> probes;
  model_.service->set_intercept(
      [&](service::InferenceRequest& request, service::InferenceCallback&) {
        ++passes;
        probes.push_back(request.sequences[0]);
        return false;
      });
  Routes routes(Options());
  EXPECT_EQ(Get(routes, "/readyz").status, 200);
  EXPECT_EQ(passes, 1);
  EXPECT_EQ(Get(routes, "/readyz").status, 200);
  EXPECT_EQ(passes, 1);
}

TEST_F(RoutesTest, AModelThatIsNotLoadedIsReadyWithoutAProbe) {
  std::atomic<int> passes = 0;
  std::atomic<int> probes = 0;
  model_.service->set_intercept(
      [&](service::InferenceRequest& request, service::InferenceCallback&) {
        ++passes;
        probes += request.probe ? 1 : 0;
        return false;
      });
  Routes routes(Options());
  model_.service->set_residence({.loaded = false});
  EXPECT_EQ(Get(routes, "/readyz").status, 200);
  EXPECT_EQ(passes, 0);
  model_.service->set_residence({});
  EXPECT_EQ(Get(routes, "/readyz").status, 200);
  EXPECT_EQ(passes, 1);
  EXPECT_EQ(probes, 1);
}

TEST_F(RoutesTest, RunningModelsAreThoseThatAreLoaded) {
  Routes routes(Options());
  EXPECT_NE(Get(routes, "/api/ps").body.find(R"("expires_at":"9999-12-31T23:59:59Z")"),
            std::string::npos);
  // 2020-09-13 on the clock of people.
  const auto ago =
      std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(1'600'000'000);
  model_.service->set_residence({.loaded = true,
                                 .bytes = 123,
                                 .expires = Clock::now() - ago + std::chrono::milliseconds(500)});
  const std::string body = Get(routes, "/api/ps").body;
  EXPECT_NE(body.find(R"("expires_at":"2020-09-13T12:26:40Z")"), std::string::npos) << body;
  EXPECT_NE(body.find(R"("size":123,)"), std::string::npos) << body;
  model_.service->set_residence({.loaded = false, .bytes = 123});
  EXPECT_EQ(Get(routes, "/api/ps").body, R"({"models":[]})");
  EXPECT_NE(Get(routes, "/api/tags").body.find("org/fake"), std::string::npos);
  EXPECT_NE(Get(routes, "/v1/models").body.find("org/fake"), std::string::npos);
}

TEST_F(RoutesTest, KeepAliveOfOllamasRoutesReachesTheServiceEveryTime) {
  using std::chrono::milliseconds;
  std::vector<std::optional<milliseconds>> seen;
  model_.service->set_intercept(
      [&](service::InferenceRequest& request, service::InferenceCallback& done) {
        seen.push_back(request.keep_alive);
        service::InferenceOutput output = testing::FakeService::Compute(request);
        output.load_time = std::chrono::nanoseconds(77);
        done(std::move(output));
        return true;
      });
  Routes routes(Options());
  for (int i = 0; i < 4; ++i) {
    const auto answer = Post(routes, "/api/embed", R"({"input":"a","keep_alive":"5m"})");
    EXPECT_NE(answer.body.find(R"("load_duration":77,)"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(seen, std::vector<std::optional<milliseconds>>(4, milliseconds(300'000)));
  seen.clear();
  Post(routes, "/api/embeddings", R"({"prompt":"a","keep_alive":0})");
  Post(routes, "/api/embed", R"({"input":"a","keep_alive":1.5})");
  Post(routes, "/api/embed", R"({"input":"a","keep_alive":-1})");
  Post(routes, "/api/embed", R"({"input":"a"})");
  Post(routes, "/v1/embeddings", R"({"model":"m","input":"a","keep_alive":{"any":"thing"}})");
  EXPECT_EQ(seen, (std::vector<std::optional<milliseconds>>{milliseconds(0), milliseconds(1500),
                                                            milliseconds::max(), std::nullopt,
                                                            std::nullopt}));
}

TEST_F(RoutesTest, NotReadyIs503WithTheReason) {
  FailWith(UnavailableError("the scheduler is shutting down"));
  Routes routes(Options());
  const HttpResponse ready = Get(routes, "/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, R"({"error":"not ready: the scheduler is shutting down"})");
  EXPECT_EQ(Get(routes, "/healthz").status, 200);
  EXPECT_EQ(Get(routes, "/health").status, 503);
}

TEST_F(RoutesTest, CheckTellsTheServerWhatARouteWants) {
  Routes routes(Options());
  const auto embed = routes.Check("POST", "/api/embed");
  EXPECT_TRUE(embed.path_known && embed.method_allowed && embed.takes_body && embed.needs_auth &&
              embed.form_content_type_ok);
  const auto wrong = routes.Check("GET", "/v1/embeddings");
  EXPECT_TRUE(wrong.path_known);
  EXPECT_FALSE(wrong.method_allowed);
  EXPECT_EQ(wrong.allow, "POST");
  EXPECT_FALSE(routes.Check("POST", "/v1/embeddings").form_content_type_ok);
  EXPECT_EQ(routes.Check("GET", "/").allow, "POST, GET, HEAD");
  EXPECT_EQ(routes.Check("HEAD", "/v1/models/a/b").route, "/v1/models/{id}");
  EXPECT_FALSE(routes.Check("GET", "/v1/models/").path_known);
  EXPECT_FALSE(routes.Check("GET", "/healthz").needs_auth);
  EXPECT_TRUE(routes.Check("GET", "/metrics").needs_auth);
  EXPECT_FALSE(routes.Check("GET", "/nothing").path_known);
}

TEST_F(RoutesTest, RendersTheServersErrorsInTheDialectOfThePath) {
  Routes routes(Options());
  EXPECT_EQ(routes.RenderError("/v2/embed", 413, "m").body, R"({"message":"m"})");
  EXPECT_EQ(routes.RenderError("/embed", 401, "m").body,
            R"({"error":"m","error_type":"Unauthorized"})");
  EXPECT_EQ(routes.RenderError("/api/embed", 415, "m").body, R"({"error":"m"})");
  EXPECT_EQ(routes.RenderError("/v1/rerank", 401, "m").body,
            R"({"error":{"message":"m","type":"authentication_error","param":null,"code":null}})");
  const HttpResponse bad = routes.RenderError("/x", 400, std::string(5000, '\xff'));
  EXPECT_LT(bad.body.size(), 700u);
  EXPECT_TRUE(JsonDocument::Parse(bad.body).ok());
}

TEST_F(RoutesTest, ErrorsNeverEchoMuchOfTheRequest) {
  Routes routes(Options());
  const std::string text(5000, 'x');
  const std::string bodies[] = {
      R"({"model":"m","input":"a","encoding_format":")" + text + "\"}",
      R"({"model":"m","input":"a","prompt_name":")" + text + "\"}",
      R"({"model":"m","input":"a","dimensions":")" + text + "\"}",
      R"({"model":"m","input":"a","truncation_direction":")" + text + "\"}",
      "{" + text,
  };
  for (const std::string& body : bodies) {
    const HttpResponse response = Post(routes, "/v1/embeddings", body);
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(response.body.find(std::string(200, 'x')), std::string::npos) << response.body;
  }
  EXPECT_LT(Get(routes, "/v1/models/" + text).body.size(), 500u);
  EXPECT_LT(Get(routes, "/" + text).body.size(), 500u);
}

// Bodies that come again.
class RepeatedBodyTest : public RoutesTest {
 protected:
  RoutesOptions Options() {
    RoutesOptions options = RoutesTest::Options();
    options.models[0].info.rows_identity = "one";
    options.answer_cache_bytes = size_t{1} << 20;
    model_.service->set_intercept([this](service::InferenceRequest&, service::InferenceCallback&) {
      ++computed_;
      return false;
    });
    return options;
  }
  static std::string Repeated(Routes& routes) {
    const std::string text = routes.metrics().Render();
    const size_t at = text.find("\npergola_repeated_answers_total ");
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }

  int computed_ = 0;
};

TEST_F(RepeatedBodyTest, IsAnsweredFromTheThirdTimeOnWithTheSameBytes) {
  Routes routes(Options());
  const std::string first = Post(routes, "/v1/embeddings", kOneText).body;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Post(routes, "/v1/embeddings", kOneText).body, first);
  EXPECT_EQ(computed_, 2);
  EXPECT_EQ(Repeated(routes), "pergola_repeated_answers_total 2");
  EXPECT_NE(routes.metrics().Render().find("\npergola_cached_inputs_total 2"), std::string::npos);
  Post(routes, "/v1/embeddings", R"({"model":"m","input":"hello "})");
  EXPECT_EQ(computed_, 3) << "another body";
  for (int i = 0; i < 4; ++i) Post(routes, "/embed", R"({"inputs":"hello"})");
  EXPECT_EQ(computed_, 5) << "another route";
}

TEST_F(RepeatedBodyTest, IdAndDurationAreFresh) {
  Routes routes(Options());
  const auto ask = [&](const std::string& path, const std::string& body, const std::string& field) {
    std::set<std::string> values;
    std::set<std::string> rest;
    for (int i = 0; i < 5; ++i) {
      std::string answer = Post(routes, path, body).body;
      const size_t begin = answer.find("\"" + field + "\":") + field.size() + 3;
      const size_t end = answer.find_first_of(",}", begin);
      values.insert(answer.substr(begin, end - begin));
      rest.insert(answer.erase(begin, end - begin));
    }
    EXPECT_EQ(rest.size(), 1u) << *rest.begin();
    return values.size();
  };
  EXPECT_EQ(ask("/v2/embed",
                R"({"model":"m","texts":["a"],"input_type":"search_query",)"
                R"("embedding_types":["float"]})",
                "id"),
            5u);
  EXPECT_GT(ask("/api/embed", R"({"model":"m","input":"hello"})", "total_duration"), 1u);
  EXPECT_EQ(Repeated(routes), "pergola_repeated_answers_total 6");
}

TEST_F(RepeatedBodyTest, CountsAsAUseOfTheModelThatStaysAsLongAsItSays) {
  Routes routes(Options());
  for (int i = 0; i < 4; ++i) Post(routes, "/v1/embeddings", kOneText);
  const std::string ollama = R"({"model":"m","input":"hello","keep_alive":"5m"})";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Post(routes, "/api/embed", ollama).status, 200);
  EXPECT_EQ(computed_, 4);
  EXPECT_EQ(Repeated(routes), "pergola_repeated_answers_total 3");
  const std::vector<std::optional<std::chrono::milliseconds>> expected = {
      std::nullopt, std::nullopt, std::chrono::minutes(5)};
  EXPECT_EQ(model_.service->uses(), expected);
}

TEST_F(RepeatedBodyTest, OnlyGoodAnswersInJsonNumbersAreKept) {
  Routes routes(Options());
  for (const char* body : {R"({"model":"m","input":"hello","encoding_format":"base64"})",
                           R"({"model":"m","input":[]})", R"({"model":"m"})"}) {
    for (int i = 0; i < 4; ++i) Post(routes, "/v1/embeddings", body);
  }
  FailWith(UnavailableError("gone"));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Post(routes, "/v1/embeddings", kOneText).status, 503);
  EXPECT_EQ(Repeated(routes), "pergola_repeated_answers_total 0");
}

TEST_F(RepeatedBodyTest, NothingIsKeptWhileTheRowsMayChange) {
  RoutesOptions options = Options();
  options.models[0].info.rows_identity.clear();
  Routes routes(std::move(options));
  for (int i = 0; i < 4; ++i) Post(routes, "/v1/embeddings", kOneText);
  EXPECT_EQ(computed_, 4);
}

TEST_F(RepeatedBodyTest, NothingIsKeptOfRowsThatSomebodyElseComputed) {
  RoutesOptions options = Options();
  options.models[0].info.rows_identity = "two";
  Routes routes(std::move(options));
  for (int i = 0; i < 4; ++i) Post(routes, "/v1/embeddings", kOneText);
  EXPECT_EQ(computed_, 4);
}

TEST_F(RepeatedBodyTest, KeysPayForItAsForAnyOther) {
  Routes routes(Options());
  const auto key = std::make_shared<KeyUsage>(KeyLimits{.tokens_per_minute = 14}, Clock::now());
  std::vector<int> statuses;
  for (int i = 0; i < 6; ++i) {
    statuses.push_back(
        Ask(routes, {.path = "/v1/embeddings", .body = kOneText, .key_usage = key}).status);
  }
  EXPECT_EQ(statuses, (std::vector<int>{200, 200, 200, 200, 429, 429}));
  EXPECT_EQ(key->in_work(), 0);
}

// The limits of a key, in the form of the dialect.
class KeyLimitsTest : public RoutesTest {
 protected:
  HttpResponse Ask(Routes& routes, std::string path, std::string body) {
    return testing::Ask(routes,
                        {.path = std::move(path), .body = std::move(body), .key_usage = key_});
  }
  void Limit(const KeyLimits& limits) { key_ = std::make_shared<KeyUsage>(limits, Clock::now()); }

  std::shared_ptr<KeyUsage> key_;
};

TEST_F(KeyLimitsTest, TooManyRequestsAre429InTheFormOfTheDialect) {
  Routes routes(Options());
  Limit({.requests_per_minute = 1});
  EXPECT_EQ(Ask(routes, "/v1/embeddings", kOneText).status, 200);
  const HttpResponse openai = Ask(routes, "/v1/embeddings", kOneText);
  EXPECT_EQ(openai.status, 429);
  EXPECT_NE(openai.body.find("1 requests per minute"), std::string::npos) << openai.body;
  EXPECT_NE(openai.body.find(R"("type":"rate_limit_error")"), std::string::npos);
  EXPECT_NE(openai.body.find(R"("code":"rate_limit_exceeded")"), std::string::npos);
  ASSERT_NE(FindHeader(openai, "retry-after"), nullptr);
  EXPECT_EQ(*FindHeader(openai, "retry-after"), "60");
  const HttpResponse tei = Ask(routes, "/embed", R"({"inputs":"hello"})");
  EXPECT_EQ(tei.status, 429);
  EXPECT_NE(tei.body.find(R"("error_type":"Overloaded")"), std::string::npos) << tei.body;
  EXPECT_NE(routes.metrics().Render().find(R"(pergola_key_limited_total{limit="requests"} 2)"),
            std::string::npos);
}

TEST_F(KeyLimitsTest, TokensAreCountedAsEmbedded) {
  Routes routes(Options());
  Limit({.tokens_per_minute = 8});  // "hello" is three with its special tokens
  EXPECT_EQ(Ask(routes, "/v1/embeddings", kOneText).status, 200);
  EXPECT_EQ(Ask(routes, "/v1/embeddings", kOneText).status, 200);
  const HttpResponse refused = Ask(routes, "/v1/embeddings", kOneText);
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("8 tokens per minute"), std::string::npos) << refused.body;
  ASSERT_NE(FindHeader(refused, "retry-after"), nullptr);
  EXPECT_EQ(*FindHeader(refused, "retry-after"), "8");
  EXPECT_EQ(key_->in_work(), 0);
}

TEST_F(KeyLimitsTest, ARequestIsInWorkUntilItIsAnswered) {
  service::InferenceCallback held;
  model_.service->set_intercept([&](service::InferenceRequest&, service::InferenceCallback& done) {
    held = std::move(done);
    return true;
  });
  Routes routes(Options());
  Limit({.concurrent = 1});
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/embeddings";
  request.body = kOneText;
  request.received = Clock::now();
  request.cancel = std::make_shared<service::CancelToken>();
  request.key_usage = key_;
  int in_work_at_answer = -1;
  routes.Handle(std::move(request), [&](const HttpResponse&) {
    in_work_at_answer = static_cast<int>(key_->in_work());
  });
  EXPECT_EQ(key_->in_work(), 1);
  const HttpResponse refused = Ask(routes, "/v1/embeddings", kOneText);
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("1 requests at a time"), std::string::npos);
  held(InternalError("no"));
  held = nullptr;
  // Given back before the client can send its next request.
  EXPECT_EQ(in_work_at_answer, 0);
}

TEST_F(KeyLimitsTest, ADeadlineThatPassesLeavesTheRequestInWork) {
  service::InferenceCallback held;
  model_.service->set_intercept([&](service::InferenceRequest&, service::InferenceCallback& done) {
    held = std::move(done);
    return true;
  });
  RoutesOptions options = Options();
  options.default_timeout = std::chrono::milliseconds(20);
  Routes routes(std::move(options));
  Limit({.concurrent = 1});
  EXPECT_EQ(Ask(routes, "/v1/embeddings", kOneText).status, 504);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(key_->in_work(), 1);
  EXPECT_EQ(Ask(routes, "/v1/embeddings", kOneText).status, 429);
  held(CancelledError("nobody waits"));
  held = nullptr;
  EXPECT_EQ(key_->in_work(), 0);
}

TEST_F(KeyLimitsTest, GetRoutesAreNotCounted) {
  Routes routes(Options());
  Limit({.requests_per_minute = 1});
  for (int i = 0; i < 3; ++i) {
    Question question;
    question.method = "GET";
    question.path = "/v1/models";
    question.key_usage = key_;
    EXPECT_EQ(testing::Ask(routes, std::move(question)).status, 200);
  }
}

}  // namespace
}  // namespace pergola::gateway
