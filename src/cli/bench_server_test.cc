#include "cli/bench_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "api/served_model.h"
#include "cli/bench_texts.h"
#include "gateway/http_server.h"
#include "gateway/routes.h"

namespace pergola::cli {
namespace {

// Counts requests and keeps their bodies.
class Counting : public gateway::HttpHandler {
 public:
  explicit Counting(gateway::RoutesOptions options) : routes_(std::move(options)) {}
  RouteCheck Check(std::string_view method, std::string_view path) const override {
    return routes_.Check(method, path);
  }
  gateway::HttpResponse RenderError(std::string_view path, int status,
                                    std::string_view message) const override {
    return routes_.RenderError(path, status, message);
  }
  void Handle(gateway::HttpRequest request, gateway::HttpRespond respond) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++requests_;
      bodies_.insert(request.body);
    }
    routes_.Handle(std::move(request), std::move(respond));
  }
  int requests() const { return requests_; }
  const std::set<std::string>& bodies() const { return bodies_; }

 private:
  gateway::Routes routes_;
  std::mutex mutex_;  // guards what follows
  int requests_ = 0;
  std::set<std::string> bodies_;
};

class BenchServerTest : public ::testing::Test {
 protected:
  struct Served {
    std::unique_ptr<api::ServedModel> model;
    std::shared_ptr<Counting> handler;
    std::unique_ptr<gateway::HttpServer> server;
    std::string url;
  };

  static Served Serve(const std::string& name) {
    Served served;
    const std::string path = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name;
    auto model = api::ServedModel::Open(name, path, {});
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    served.model = std::move(*model);
    gateway::RoutesOptions routes;
    routes.models.push_back({served.model->service(), served.model->info(), served.model->text()});
    served.handler = std::make_shared<Counting>(std::move(routes));
    gateway::HttpServerOptions options;
    options.port = 0;
    auto server = gateway::HttpServer::Start(std::move(options), served.handler);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    served.server = std::move(*server);
    served.url = served.server->addresses()[0];
    return served;
  }
  static ServerBenchOptions Options(const Served& served) {
    ServerBenchOptions options;
    options.servers = {{served.url, "m", ""}};
    options.text = served.model->text();
    options.seconds = std::chrono::milliseconds(20);
    return options;
  }
  static Result<std::vector<ServerBenchCell>> Run(const ServerBenchOptions& options) {
    std::vector<ServerBenchCell> cells;
    const Status status =
        BenchServer(options, [&](const ServerBenchCell& cell) { cells.push_back(cell); });
    if (!status.ok()) return status;
    return cells;
  }
};

TEST_F(BenchServerTest, EveryRequestIsAnotherAndCounted) {
  const Served served = Serve("bert");
  ServerBenchOptions options = Options(served);
  options.loads = {{16, 2, 3}, {1 << 20, 1, 1}};
  const auto cells = Run(options);
  ASSERT_TRUE(cells.ok()) << cells.status().ToString();
  ASSERT_EQ(cells->size(), 1u) << "a length over the model's limit is left out";
  const ServerBenchCell& cell = cells->front();
  EXPECT_EQ(cell.errors, 0);
  EXPECT_GE(cell.requests, 6) << "of each client one in each round";
  // Beside the cell's own: the list that is compared, and its texts one by one.
  EXPECT_EQ(served.handler->requests(), cell.requests + 3);
  EXPECT_EQ(served.handler->bodies().size(), static_cast<size_t>(cell.requests + 3));
  EXPECT_GT(cell.least_cosine, 0.9999);
  EXPECT_GT(cell.ms_p50, 0);
  EXPECT_LE(cell.ms_p50, cell.ms_p90);
  EXPECT_LE(cell.ms_p90, cell.ms_p99);
  EXPECT_LE(cell.ms_p99, cell.ms_max);
  EXPECT_NEAR(cell.tokens_per_s, cell.requests_per_s * 32, cell.tokens_per_s * 1e-9);
}

TEST_F(BenchServerTest, TwoServersTakeTurnsOnTheSameLoads) {
  const Served one = Serve("bert");
  const Served other = Serve("bert");
  ServerBenchOptions options = Options(one);
  options.servers.push_back({other.url, "m", ""});
  options.loads = {{8, 1, 1, /*ids=*/true}, {16, 1, 2}};
  const auto cells = Run(options);
  ASSERT_TRUE(cells.ok()) << cells.status().ToString();
  ASSERT_EQ(cells->size(), 4u);
  EXPECT_EQ((*cells)[0].url, one.url);
  EXPECT_EQ((*cells)[1].url, other.url);
  EXPECT_EQ((*cells)[3].load.clients, 2);
  EXPECT_GT(other.handler->requests(), 0);
}

TEST_F(BenchServerTest, VectorsThatDifferEndTheRunBeforeTimeCounts) {
  const Served one = Serve("bert");
  const Served other = Serve("distilbert");
  ServerBenchOptions options = Options(one);
  options.servers.push_back({other.url, "m", ""});
  options.loads = {{8, 1, 1}};
  const auto cells = Run(options);
  EXPECT_EQ(cells.status().code(), StatusCode::kInternal);
  EXPECT_NE(cells.status().message().find("length 8, batch 1, clients 1"), std::string::npos)
      << cells.status().ToString();
  EXPECT_EQ(one.handler->requests(), 1);
}

TEST_F(BenchServerTest, AnOpenLoopSendsWhatIsDueAndNoMore) {
  const Served served = Serve("bert");
  ServerBenchOptions options = Options(served);
  options.seconds = std::chrono::milliseconds(200);
  options.loads = {{.length = 8, .clients = 4, .rate = 100}};
  const auto cells = Run(options);
  ASSERT_TRUE(cells.ok()) << cells.status().ToString();
  EXPECT_EQ(cells->front().requests, 20);
}

TEST_F(BenchServerTest, AServerThatIsNotThereIsUnavailable) {
  const Served served = Serve("bert");
  ServerBenchOptions options = Options(served);
  options.servers[0].url = "http://127.0.0.1:1";
  options.loads = {{8, 1, 1}};
  EXPECT_EQ(Run(options).status().code(), StatusCode::kUnavailable);
}

TEST_F(BenchServerTest, TextsHaveTheTokensThatTheyAreMadeFor) {
  const Served served = Serve("bert");
  const auto texts = BenchTexts::Make(served.model->text());
  ASSERT_TRUE(texts.ok()) << texts.status().ToString();
  std::set<std::string> seen;
  for (const int64_t length : {texts->shortest() + 4, int64_t{16}, texts->longest()}) {
    EXPECT_TRUE(texts->Check(length).ok());
    for (uint64_t index = 0; index < 50; ++index) {
      const auto ids = texts->Ids(index, length);
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(static_cast<int64_t>(ids->size()), length);
      EXPECT_TRUE(seen.insert(texts->Text(index, length)).second);
      EXPECT_EQ(texts->Text(index, length), texts->Text(index, length));
    }
  }
}

TEST(BenchCaseTest, ThePublishedCases) {
  EXPECT_EQ(LoadsOf(BenchCase::kOnline).back().length, 4096);
  EXPECT_TRUE(LoadsOf(BenchCase::kOnline).front().ids);
  EXPECT_EQ(LoadsOf(BenchCase::kScoring).back().batch, 50);
  for (const ServerLoad& load : LoadsOf(BenchCase::kBulk)) {
    EXPECT_EQ(load.batch, 100);
    EXPECT_EQ(load.clients, 4);
  }
  EXPECT_EQ(LoadsOf(BenchCase::kConcurrent).size(), 5u);
}

}  // namespace
}  // namespace pergola::cli
