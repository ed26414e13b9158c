// A grid in this process: who is a member, whom a call goes to, and what is never answered.
#include "grid/router.h"

#include <gtest/gtest.h>

#include <thread>

#include "grid/frame_server.h"
#include "grid/part_service.h"
#include "grid/topology.h"

namespace pergola::grid {
namespace {

const std::string kModel = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/llama";

service::GridMemberFacts Facts(std::string url, int64_t first, int64_t last) {
  service::GridMemberFacts facts;
  facts.model = "m";
  facts.identity = std::string(64, 'a');
  facts.numeric_class = "F32 x f32, reference";
  facts.url = std::move(url);
  facts.ffn = true;
  facts.first_layer = first;
  facts.last_layer = last;
  facts.num_layers = 4;
  facts.hidden_size = 8;
  facts.vocab_size = 100;
  return facts;
}

service::GridMemberFacts EmbedFacts(std::string url) {
  service::GridMemberFacts facts = Facts(std::move(url), 0, -1);
  facts.ffn = false;
  facts.embed = facts.head = true;
  return facts;
}

TEST(TopologyTest, NamesWhatNobodyServes) {
  Topology topology;
  EXPECT_NE(topology.Missing(), "");
  ASSERT_TRUE(topology.Add(Facts("a", 0, 1)).ok());
  EXPECT_EQ(topology.Missing(), "the embedding table, the projection, feed-forward layers 2, 3");
  ASSERT_TRUE(topology.Add(EmbedFacts("b")).ok());
  const uint64_t third = *topology.Add(Facts("c", 1, 3));
  EXPECT_EQ(topology.Missing(), "");
  EXPECT_NE(topology.GridJson().find("\"complete\":true"), std::string::npos);
  topology.Remove(third);
  EXPECT_EQ(topology.Missing(), "feed-forward layers 2, 3");
  EXPECT_NE(topology.GridJson().find("\"complete\":false"), std::string::npos);
}

TEST(TopologyTest, RefusesAnotherModelArithmeticAndFactsThatContradictThemselves) {
  Topology topology;
  ASSERT_TRUE(topology.Add(Facts("a", 0, 1)).ok());
  service::GridMemberFacts other = Facts("b", 2, 3);
  other.identity = std::string(64, 'b');
  Status status = topology.Add(other).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(other.identity), std::string::npos);
  EXPECT_NE(status.message().find(std::string(64, 'a')), std::string::npos);
  other = Facts("b", 2, 3);
  other.numeric_class = "abacus";
  EXPECT_EQ(topology.Add(other).status().code(), StatusCode::kFailedPrecondition);
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{2, 4}, {-1, 2}, {3, 2}}) {
    EXPECT_EQ(topology.Add(Facts("b", first, last)).status().code(), StatusCode::kInvalidArgument);
  }
  other = Facts("b", 2, 3);
  other.identity = "a";
  EXPECT_EQ(topology.Add(other).status().code(), StatusCode::kInvalidArgument);
  other = Facts("b", 2, 3);
  other.ffn = false;
  EXPECT_EQ(topology.Add(other).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(topology.members()->size(), 1u);
}

TEST(TopologyTest, EvictsTheSilentAndReplacesAServerThatCameBack) {
  Topology topology;
  const uint64_t first = *topology.Add(Facts("a", 0, 3));
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(topology.Evict(now), 0u);
  EXPECT_TRUE(topology.Beat(first, {2, 7, 1000}).ok());
  EXPECT_NE(topology.GridJson().find("\"load\":{\"in_flight\":2,\"requests\":7"),
            std::string::npos);
  const uint64_t again = *topology.Add(Facts("a", 0, 3));
  EXPECT_EQ(topology.members()->size(), 1u);
  EXPECT_EQ(topology.Beat(first, {}).code(), StatusCode::kNotFound);
  topology.Remove(first);  // the old stream ends late
  EXPECT_TRUE(topology.Beat(again, {}).ok());
  EXPECT_EQ(topology.Evict(std::chrono::steady_clock::now() + std::chrono::seconds(4)), 1u);
  EXPECT_EQ(topology.Beat(again, {}).code(), StatusCode::kNotFound);
}

TEST(TopologyTest, PicksTheLessBusyAndNobodyTwice) {
  Topology topology;
  ASSERT_TRUE(topology.Add(Facts("a", 0, 3)).ok() && topology.Add(Facts("b", 0, 3)).ok());
  const auto members = topology.members();
  members->front()->in_flight = 5;
  int busy = 0;
  constexpr int kDraws = 400;
  for (int i = 0; i < kDraws; ++i) {
    busy += topology.Pick(FrameKind::kFfn, 2, {}) == members->front() ? 1 : 0;
  }
  // Only when both draws are the busy one: a quarter; 400 draws stay within 5 deviations.
  EXPECT_NEAR(busy, kDraws / 4, 45);
  std::vector<MemberPtr> tried = {members->back()};
  EXPECT_EQ(topology.Pick(FrameKind::kFfn, 2, tried), members->front());
  tried.push_back(members->front());
  EXPECT_EQ(topology.Pick(FrameKind::kFfn, 2, tried), nullptr);
  EXPECT_EQ(topology.Pick(FrameKind::kEmbed, 0, {}), nullptr);
}

TEST(TopologyTest, ManyJoinAndLeaveAtOnce) {
  Topology topology;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&topology, thread] {
      for (int i = 0; i < 250; ++i) {
        const std::string url = std::to_string(thread) + "/" + std::to_string(i);
        const auto id = topology.Add(Facts(url, 0, 3));
        ASSERT_TRUE(id.ok());
        EXPECT_TRUE(topology.Beat(*id, {}).ok());
        EXPECT_NE(topology.Pick(FrameKind::kFfn, 1, {}), nullptr);
        topology.Remove(*id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(topology.members()->empty());
}

struct Part {
  std::unique_ptr<PartService> service;
  std::unique_ptr<FrameServer> server;
  bool poison = false;  // answers NaN

  service::GridMemberFacts Facts() const {
    const PartFacts& facts = service->facts();
    service::GridMemberFacts member;
    member.model = facts.model;
    member.identity = facts.identity;
    member.numeric_class = facts.numeric_class;
    member.url = "pergola://127.0.0.1:" + std::to_string(server->port());
    member.ffn = facts.layers.size() > 0;
    member.embed = member.head = !member.ffn;
    member.first_layer = facts.layers.first;
    member.last_layer = facts.layers.last;
    member.num_layers = facts.num_layers;
    member.hidden_size = facts.hidden_size;
    member.vocab_size = facts.vocab_size;
    return member;
  }
};

std::unique_ptr<Part> Serve(Role role) {
  auto part = std::make_unique<Part>();
  PartOptions options;
  options.role = role;
  options.ops.num_threads = 1;
  part->service = *PartService::Load(kModel, options);
  part->server = *FrameServer::Start(
      {}, [raw = part.get()](const FrameHeader& request, std::span<const std::byte> payload,
                             std::string* answer) {
        PERGOLA_RETURN_IF_ERROR(raw->service->Handle(request, payload, answer));
        if (!raw->poison || request.kind != FrameKind::kFfn) return OkStatus();
        FrameHeader header = request;
        header.answer = true;
        answer->clear();
        const std::string nans(payload.size(), '\xff');
        AppendBytesFrame(header, nans, answer);
        return OkStatus();
      });
  return part;
}

class RouterTest : public ::testing::Test {
 protected:
  // One row of ones through layer 1.
  Status Ask(std::string* answer) {
    const service::GridMemberFacts& facts = topology_.members()->front()->facts;
    const std::vector<float> row(static_cast<size_t>(facts.hidden_size), 1.0F);
    FrameHeader header{.kind = FrameKind::kFfn, .type = PayloadType::kF32};
    header.identity = ShortIdentityOf(facts.identity);
    header.request_id = 9;
    header.argument = 1;
    header.rows = 1;
    header.width = static_cast<uint32_t>(row.size());
    answer->clear();
    return router_.Handle(header, std::as_bytes(std::span(row)), answer);
  }

  Topology topology_;
  Router router_{topology_};
};

TEST_F(RouterTest, AnswersFromAReplicaWhenOneIsGoneOrPoisoned) {
  auto first = Serve(Role::kFfn), second = Serve(Role::kFfn);
  ASSERT_TRUE(topology_.Add(first->Facts()).ok());
  std::string expected, answer;
  ASSERT_TRUE(Ask(&expected).ok());
  ASSERT_TRUE(topology_.Add(second->Facts()).ok());
  const auto rows = [](const std::string& frame) { return frame.substr(kFrameHeaderBytes); };
  first->poison = true;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Ask(&answer).ok());
    EXPECT_EQ(rows(answer), rows(expected));
  }
  first.reset();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Ask(&answer).ok());
    EXPECT_EQ(rows(answer), rows(expected));
  }
  second->poison = true;
  EXPECT_EQ(Ask(&answer).code(), StatusCode::kUnavailable);
  EXPECT_EQ(answer, "");
}

TEST_F(RouterTest, AGapIsAnErrorThatNamesItAndStatsSayNothingElse) {
  const auto embed = Serve(Role::kEmbed);
  std::string answer;
  EXPECT_EQ(router_.Handle({.kind = FrameKind::kStats}, {}, &answer).code(),
            StatusCode::kUnavailable);
  ASSERT_TRUE(topology_.Add(embed->Facts()).ok());
  Status status = Ask(&answer);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("feed-forward layers 0, 1, 2"), std::string::npos)
      << status.message();
  status = router_.Handle({.kind = FrameKind::kStats}, {}, &answer);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(answer, "");
  const auto ffn = Serve(Role::kFfn);
  ASSERT_TRUE(topology_.Add(ffn->Facts()).ok());
  EXPECT_TRUE(Ask(&answer).ok());
  EXPECT_TRUE(router_.Handle({.kind = FrameKind::kStats}, {}, &answer).ok());
  FrameHeader other{.kind = FrameKind::kEmbed};
  EXPECT_EQ(router_.Handle(other, {}, &answer).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pergola::grid
