// Servers join, beat, leave and come back over real sockets; the list that they join is a fake.
#include "rpc/grid_link.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pergola/v1/grid.grpc.pb.h"
#include "server/testing/self_signed.h"

namespace pergola::rpc {
namespace {

constexpr std::chrono::seconds kPatience{20};

class FakeRegistry : public service::GridRegistry {
 public:
  Result<uint64_t> Add(const service::GridMemberFacts& facts) override {
    const std::lock_guard lock(mutex_);
    if (facts.identity == "wrong") {
      return FailedPreconditionError("its identity is 'wrong', this grid's is 'right'");
    }
    members_[++last_id_] = facts;
    ++joined_;
    changed_.notify_all();
    return last_id_;
  }
  Status Beat(uint64_t id, const service::GridLoad& load) override {
    const std::lock_guard lock(mutex_);
    if (!members_.contains(id)) return NotFoundError("no member");
    load_ = load;
    ++beats_;
    changed_.notify_all();
    return OkStatus();
  }
  Result<std::optional<service::GridAssignment>> Assign(const service::GridSpare& spare) override {
    if (spare.leaving) return std::optional<service::GridAssignment>();
    service::GridAssignment assignment;
    assignment.identity = spare.name;
    assignment.numeric_class = spare.failed;
    assignment.first_layer = 3;
    assignment.last_layer = 5;
    assignment.sources = {"http://one", "http://two"};
    return std::optional(assignment);
  }
  void Remove(uint64_t id) override {
    const std::lock_guard lock(mutex_);
    members_.erase(id);
    changed_.notify_all();
  }
  std::string GridJson() const override { return "{}"; }

  void Evict() {
    const std::lock_guard lock(mutex_);
    members_.clear();
  }
  template <typename Condition>
  bool WaitFor(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<uint64_t, service::GridMemberFacts> members_;
  service::GridLoad load_;
  uint64_t last_id_ = 0;
  size_t joined_ = 0;
  size_t beats_ = 0;
};

// What a link told, for a test to wait for.
class Told {
 public:
  std::function<void(const Status&)> Listener() {
    return [this](const Status& status) {
      const std::lock_guard lock(mutex_);
      last_ = status;
      changed_.notify_all();
    };
  }
  bool WaitFor(StatusCode code) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return last_ && last_->code() == code; });
  }
  std::string message() {
    const std::lock_guard lock(mutex_);
    return last_ ? last_->message() : "";
  }

 private:
  std::mutex mutex_;  // guards the next
  std::condition_variable changed_;
  std::optional<Status> last_;
};

GridLinkOptions Options() {
  GridLinkOptions options;
  options.facts.model = "m";
  options.facts.identity = "right";
  options.facts.url = "pergola://127.0.0.1:1";
  options.facts.ffn = true;
  options.facts.first_layer = 2;
  options.facts.last_layer = 5;
  options.facts.num_layers = 9;
  options.facts.embed_scale = 1.5F;
  options.load = [] { return service::GridLoad{3, 14, 1u << 20}; };
  options.beat = std::chrono::milliseconds(5);
  return options;
}

std::string Target(const GridListener& listener) {
  return "127.0.0.1:" + std::to_string(listener.port());
}

TEST(GridLinkTest, JoinsBeatsAndLeaves) {
  FakeRegistry registry;
  const auto listener = GridListener::Start({}, registry);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  {
    GridLink link(Target(**listener), Options());
    ASSERT_TRUE(registry.WaitFor([&] { return registry.beats_ >= 3; }));
    const std::lock_guard lock(registry.mutex_);
    const service::GridMemberFacts& facts = registry.members_.begin()->second;
    EXPECT_EQ(facts.url, "pergola://127.0.0.1:1");
    EXPECT_TRUE(facts.ffn && !facts.embed && !facts.head);
    EXPECT_EQ(facts.first_layer, 2);
    EXPECT_EQ(facts.last_layer, 5);
    EXPECT_EQ(facts.num_layers, 9);
    EXPECT_EQ(facts.embed_scale, 1.5F);
    EXPECT_EQ(registry.load_.in_flight, 3);
    EXPECT_EQ(registry.load_.requests, 14u);
  }
  EXPECT_TRUE(registry.WaitFor([&] { return registry.members_.empty(); }));
}

TEST(GridLinkTest, JoinsAgainAfterAnEvictionAndARestart) {
  FakeRegistry registry;
  auto listener = GridListener::Start({}, registry);
  ASSERT_TRUE(listener.ok());
  const int port = (*listener)->port();
  GridLink link(Target(**listener), Options());
  ASSERT_TRUE(registry.WaitFor([&] { return registry.joined_ == 1; }));
  registry.Evict();
  ASSERT_TRUE(registry.WaitFor([&] { return registry.joined_ == 2; }));
  listener->reset();
  EXPECT_TRUE(registry.WaitFor([&] { return registry.members_.empty(); }));
  listener = GridListener::Start({.host = "127.0.0.1", .port = port}, registry);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  EXPECT_TRUE(registry.WaitFor([&] { return registry.joined_ >= 3; }));
}

TEST(GridLinkTest, TellsWhyItMayNotJoin) {
  FakeRegistry registry;
  const auto listener =
      GridListener::Start({.host = "127.0.0.1",
                           .port = 0,
                           .admits = [](std::string_view text) { return text == "Bearer sesame"; }},
                          registry);
  ASSERT_TRUE(listener.ok());
  Told keyless, wrong, right;
  GridLinkOptions options = Options();
  options.changed = keyless.Listener();
  GridLink without_key(Target(**listener), options);
  EXPECT_TRUE(keyless.WaitFor(StatusCode::kUnauthenticated));
  options.key = "sesame";
  options.changed = right.Listener();
  GridLink with_key(Target(**listener), options);
  EXPECT_TRUE(right.WaitFor(StatusCode::kOk));
  {
    // What it joined with is what its frames want to be shown.
    const std::lock_guard lock(registry.mutex_);
    EXPECT_EQ(registry.members_.begin()->second.key, "sesame");
  }
  options.facts.identity = "wrong";
  options.changed = wrong.Listener();
  GridLink other_model(Target(**listener), options);
  EXPECT_TRUE(wrong.WaitFor(StatusCode::kFailedPrecondition));
  EXPECT_NE(wrong.message().find("'right'"), std::string::npos) << wrong.message();
}

TEST(GridLinkTest, EndsStreamsThatSayNothing) {
  FakeRegistry registry;
  GridListenerOptions listening;
  listening.silence = std::chrono::milliseconds(50);
  const auto listener = GridListener::Start(listening, registry);
  ASSERT_TRUE(listener.ok());
  // A member whose first beat is far away, and a stream that never announces itself.
  GridLinkOptions options = Options();
  options.beat = std::chrono::hours(1);
  GridLink silent(Target(**listener), options);
  ASSERT_TRUE(registry.WaitFor([&] { return registry.joined_ == 1; }));
  const auto stub = v1::Grid::NewStub(
      grpc::CreateChannel(Target(**listener), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Join(&context);
  v1::JoinResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(registry.WaitFor([&] { return registry.members_.empty(); }));
}

TEST(GridLinkTest, RefusesMoreStreamsThanItHasRoomFor) {
  FakeRegistry registry;
  GridListenerOptions listening;
  listening.max_joins = 1;
  const auto listener = GridListener::Start(listening, registry);
  ASSERT_TRUE(listener.ok());
  Told first, second;
  GridLinkOptions options = Options();
  options.changed = first.Listener();
  auto link = std::make_unique<GridLink>(Target(**listener), options);
  ASSERT_TRUE(first.WaitFor(StatusCode::kOk));
  options.changed = second.Listener();
  GridLink other(Target(**listener), options);
  EXPECT_TRUE(second.WaitFor(StatusCode::kResourceExhausted));
  link.reset();  // there is room again
  EXPECT_TRUE(second.WaitFor(StatusCode::kOk));
}

TEST(GridLinkTest, ASpareIsToldItsAssignment) {
  FakeRegistry registry;
  GridListenerOptions listening;
  listening.admits = [](std::string_view text) { return text == "Bearer sesame"; };
  const auto listener = GridListener::Start(listening, registry);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(SpareLink(Target(**listener), "").Ask({"me", "", false}).status().code(),
            StatusCode::kUnauthenticated);
  const SpareLink link(Target(**listener), "sesame");
  const auto assignment = link.Ask({"me", "why", false});
  ASSERT_TRUE(assignment.ok() && *assignment) << assignment.status().ToString();
  EXPECT_EQ((*assignment)->identity, "me");
  EXPECT_EQ((*assignment)->numeric_class, "why");
  EXPECT_FALSE((*assignment)->embed);
  EXPECT_EQ((*assignment)->first_layer, 3);
  EXPECT_EQ((*assignment)->last_layer, 5);
  EXPECT_EQ((*assignment)->sources, (std::vector<std::string>{"http://one", "http://two"}));
  const auto none = link.Ask({"me", "", true});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(*none);
}

TEST(GridLinkTest, JoinsOverTlsWithACertificateOfItsOwnWhereOneIsWanted) {
  const auto router = server::testing::MakeSelfSigned(), member = server::testing::MakeSelfSigned();
  FakeRegistry registry;
  GridListenerOptions listening;
  listening.tls = {router.cert_pem, router.key_pem, member.cert_pem};
  const auto listener = GridListener::Start(listening, registry);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  Told plain, nameless, stranger, right;
  GridLinkOptions options = Options();
  options.changed = plain.Listener();
  GridLink in_the_clear(Target(**listener), options);
  options.tls.ca = router.cert_pem;
  options.changed = nameless.Listener();
  GridLink without_certificate(Target(**listener), options);
  options.tls = {member.cert_pem, member.key_pem, member.cert_pem};
  options.changed = stranger.Listener();
  GridLink of_another_router(Target(**listener), options);
  EXPECT_TRUE(plain.WaitFor(StatusCode::kUnavailable));
  EXPECT_TRUE(nameless.WaitFor(StatusCode::kUnavailable));
  EXPECT_TRUE(stranger.WaitFor(StatusCode::kUnavailable));
  EXPECT_EQ(registry.joined_, 0u);
  options.tls = {member.cert_pem, member.key_pem, router.cert_pem};
  options.changed = right.Listener();
  GridLink link(Target(**listener), options);
  EXPECT_TRUE(right.WaitFor(StatusCode::kOk));
  EXPECT_TRUE(SpareLink(Target(**listener), "", options.tls).Ask({"me", "", false}).ok());
}

TEST(GridLinkTest, ARenewedCertificateIsThatOfWhoJoinsLater) {
  const auto first = server::testing::MakeSelfSigned(), second = server::testing::MakeSelfSigned();
  const auto member = server::testing::MakeSelfSigned();
  FakeRegistry registry;
  GridListenerOptions listening;
  listening.tls = {first.cert_pem, first.key_pem, member.cert_pem};
  const auto listener = GridListener::Start(listening, registry);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  Told early, late, strange;
  GridLinkOptions options = Options();
  options.tls = {member.cert_pem, member.key_pem, first.cert_pem};
  options.changed = early.Listener();
  GridLink before(Target(**listener), options);
  EXPECT_TRUE(early.WaitFor(StatusCode::kOk));
  // What cannot be used changes nothing.
  for (const LinkTls& broken : {LinkTls{second.cert_pem, first.key_pem, member.cert_pem},
                                LinkTls{"none", second.key_pem, member.cert_pem},
                                LinkTls{second.cert_pem, "", member.cert_pem},
                                LinkTls{second.cert_pem, second.key_pem, "none"},
                                LinkTls{second.cert_pem, second.key_pem, ""}}) {
    EXPECT_EQ((*listener)->RenewTls(broken).code(), StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE((*listener)->RenewTls({second.cert_pem, second.key_pem, member.cert_pem}).ok());
  options.tls.ca = second.cert_pem;
  options.changed = late.Listener();
  GridLink after(Target(**listener), options);
  EXPECT_TRUE(late.WaitFor(StatusCode::kOk));  // it tries again until the listener has it
  // From then on who trusts the old one alone does not come in, until it is given the new one.
  options.tls.ca = first.cert_pem;
  options.changed = strange.Listener();
  GridLink stranger(Target(**listener), options);
  EXPECT_TRUE(strange.WaitFor(StatusCode::kUnavailable));
  options.tls.ca = second.cert_pem;
  stranger.RenewTls(options.tls);
  EXPECT_TRUE(strange.WaitFor(StatusCode::kOk));
  EXPECT_TRUE(early.WaitFor(StatusCode::kOk));  // a membership that stands goes on
  EXPECT_EQ(registry.joined_, 3u);
}

TEST(GridLinkTest, ManyJoinAndLeave) {
  FakeRegistry registry;
  const auto listener = GridListener::Start({}, registry);
  ASSERT_TRUE(listener.ok());
  constexpr size_t kLinks = 100;
  std::vector<std::unique_ptr<GridLink>> links;
  GridLinkOptions options = Options();
  options.beat = std::chrono::seconds(1);
  for (size_t i = 0; i < kLinks; ++i) {
    links.push_back(std::make_unique<GridLink>(Target(**listener), options));
  }
  EXPECT_TRUE(registry.WaitFor([&] { return registry.members_.size() == kLinks; }));
  links.clear();
  EXPECT_TRUE(registry.WaitFor([&] { return registry.members_.empty(); }));
  EXPECT_EQ(registry.joined_, kLinks);
}

TEST(GridLinkTest, StopsAtOnceWhenNobodyListens) {
  FakeRegistry registry;
  auto listener = GridListener::Start({}, registry);
  ASSERT_TRUE(listener.ok());
  const std::string target = Target(**listener);
  listener->reset();
  Told told;
  GridLinkOptions options = Options();
  options.changed = told.Listener();
  GridLink link(target, options);
  EXPECT_TRUE(told.WaitFor(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace pergola::rpc
