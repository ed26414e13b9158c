// What a request's time and its client's leaving mean to who computes: docs/split.md's routes over
// a real server. The routes' answers are compared by tests/split/http_test.py.
#include "gateway/split_routes.h"

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "gateway/grid_pages.h"
#include "gateway/testing/server_fixture.h"

namespace pergola::gateway {
namespace {

using service::SplitCall;
using std::chrono::steady_clock;
using testing::Get;
using testing::Post;
using testing::RawClient;

constexpr std::chrono::hours kLong(1);

// Waits in every call until nobody waits for it any more, and keeps what it was told.
struct Waiter {
  std::atomic<int> begun = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<steady_clock::time_point> deadline = steady_clock::time_point::min();

  Status Wait(const SplitCall& call) {
    deadline = call.deadline;
    ++begun;
    begun.notify_all();
    Status status;
    EXPECT_TRUE(Eventually([&] {
      status = call.cancelled() ? call.Check() : OkStatus();
      return !status.ok();
    }));
    if (status.code() == StatusCode::kCancelled) ++cancelled;
    return status;
  }
};

class WaitingService : public service::SplitService {
 public:
  explicit WaitingService(Waiter& waiter) : waiter_(waiter) {}
  int64_t hidden_size() const override { return 2; }
  int64_t vocab_size() const override { return 10; }
  const std::string& model_identity() const override { return identity_; }
  std::string StatsJson() const override { return "{}"; }
  Status EmbedRows(const SplitCall& call, std::span<const int32_t>, std::span<float>) override {
    return waiter_.Wait(call);
  }
  Status ComputeLogits(const SplitCall& call, std::span<const float>, std::span<float>) override {
    return waiter_.Wait(call);
  }
  Result<std::vector<std::vector<service::TokenChance>>> TopTokens(const SplitCall& call,
                                                                   std::span<const float>, int64_t,
                                                                   float) override {
    return waiter_.Wait(call);
  }
  Result<std::vector<int32_t>> EncodeText(const SplitCall& call, std::string_view, bool) override {
    return waiter_.Wait(call);
  }
  Result<std::string> DecodeIds(const SplitCall& call, std::span<const int32_t>, bool) override {
    return waiter_.Wait(call);
  }

 private:
  Waiter& waiter_;
  const std::string identity_ = std::string(64, 'a');
};

// Nobody has joined; only the routes that wait are asked.
class NoRegistry : public service::GridRegistry {
 public:
  Result<uint64_t> Add(const service::GridMemberFacts&) override { return 0; }
  Status Beat(uint64_t, const service::GridLoad&) override { return OkStatus(); }
  void Remove(uint64_t) override {}
  Result<std::optional<service::GridAssignment>> Assign(const service::GridSpare&) override {
    return std::optional<service::GridAssignment>();
  }
  std::string GridJson() const override { return "{}"; }
};

const std::string kJsonType = "Content-Type: application/json\r\n";

// A request of every route that waits.
std::vector<std::string> Requests(const std::string& fields) {
  return {
      Post("/v1/embed", R"({"token_ids":[1]})", kJsonType + fields),
      Get("/v1/embed/1", fields),
      Post("/v1/logits", R"({"residual":[1,2]})", kJsonType + fields),
      Post("/v1/logits", R"({"residual":[1,2]})",
           kJsonType + "Accept: application/x-larql-ffn\r\n" + fields),
      Get("/v1/token/encode?text=a", fields),
      Get("/v1/token/decode?ids=1", fields),
      Post("/v1/ffn", "a frame", "Content-Type: application/x-pergola-frame\r\n" + fields),
  };
}

class SplitDeadlineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GridPagesOptions pages;
    pages.missing = [] { return ""; };
    pages.has_model = [] { return true; };
    pages.answer_frame = [this](std::string_view, const SplitCall& call, std::string*) {
      return waiter_.Wait(call);
    };
    pages.model_routes = std::make_shared<SplitRoutes>(std::make_shared<WaitingService>(waiter_),
                                                       /*private_answers=*/false);
    HttpServerOptions options;
    options.port = 0;
    options.request_timeout = kLong;
    auto started =
        HttpServer::Start(options, std::make_shared<GridPages>(registry_, std::move(pages)));
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = std::move(*started);
  }

  Waiter waiter_;
  NoRegistry registry_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(SplitDeadlineTest, TheTimeThatARequestStatesReachesTheCall) {
  int ended = 0;
  for (const std::string& request : Requests("x-request-timeout-ms: 50\r\n")) {
    SCOPED_TRACE(request);
    const auto before = steady_clock::now();
    EXPECT_EQ(RawClient::Tcp(server_->port()).Ask(request).status, 504);
    EXPECT_TRUE(Eventually([&] { return waiter_.cancelled == ended + 1; }));
    ++ended;
    EXPECT_EQ(waiter_.begun, ended);
    EXPECT_GT(waiter_.deadline.load(), before);
    EXPECT_LE(waiter_.deadline.load(), steady_clock::now());
  }
}

TEST_F(SplitDeadlineTest, AClientThatLeavesEndsItsCall) {
  int ended = 0;
  for (const std::string& request : Requests("")) {
    SCOPED_TRACE(request);
    {
      RawClient client = RawClient::Tcp(server_->port());
      ASSERT_TRUE(client.Send(request));
      waiter_.begun.wait(ended);
      EXPECT_GT(waiter_.deadline.load(), steady_clock::now() + kLong / 2);
    }
    EXPECT_TRUE(Eventually([&] { return waiter_.cancelled == ended + 1; }));
    ++ended;
  }
}

}  // namespace
}  // namespace pergola::gateway
