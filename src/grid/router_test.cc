// A grid in this process: who is a member, whom a call goes to, and what is never answered.
#include "grid/router.h"

#include <gtest/gtest.h>

#include <atomic>
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
  for (const char* url : {"/srv/slices", "ftp://b/slices", "https:/b"}) {
    other = Facts("b", 2, 3);
    other.slices_url = url;
    EXPECT_EQ(topology.Add(other).status().code(), StatusCode::kInvalidArgument) << url;
  }
  other = Facts("b", 2, 3);
  other.ffn = false;
  EXPECT_EQ(topology.Add(other).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(topology.members()->size(), 1u);
}

TEST(TopologyTest, AMemberWithoutTlsIsRefusedWhereAllNeedIt) {
  Topology topology({.needs_tls = true});
  const Status status = topology.Add(Facts("pergola://10.0.0.2:42667", 0, 3)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("pergola://10.0.0.2:42667"), std::string::npos);
  EXPECT_NE(status.message().find("--member-ca"), std::string::npos) << status.message();
  EXPECT_FALSE(topology.Add(Facts("10.0.0.2:42667", 0, 3)).ok());
  EXPECT_TRUE(topology.Add(Facts("pergolas://10.0.0.2:42667", 0, 3)).ok());
}

TEST(TopologyTest, StaysWithItsModelWhenAllMembersHaveGone) {
  Topology topology;
  topology.Remove(*topology.Add(Facts("a", 0, 3)));
  EXPECT_TRUE(topology.members()->empty());
  EXPECT_EQ(topology.Missing(),
            "the embedding table, the projection, feed-forward layers 0, 1, 2, 3");
  service::GridMemberFacts other = Facts("b", 0, 3);
  other.numeric_class = "abacus";
  const Status status = topology.Add(other).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("'abacus'"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("'F32 x f32, reference'"), std::string::npos);
  other = Facts("b", 0, 3);
  other.identity = std::string(64, 'b');
  EXPECT_EQ(topology.Add(other).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(topology.Add(Facts("b", 0, 3)).ok());
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

TEST(TopologyTest, GivesEveryGapToOneSpareUntilItFailsOrIsSilent) {
  Topology topology;
  const auto ask = [&](const char* name, const char* failed = "") {
    return *topology.Assign({name, failed, false});
  };
  EXPECT_FALSE(ask("x"));  // which model is not known yet
  service::GridMemberFacts sharing = Facts("a", 1, 1);
  sharing.slices_url = "http://a/v1/slices";
  ASSERT_TRUE(topology.Add(sharing).ok());
  const auto first = ask("x"), second = ask("y"), third = ask("z");
  ASSERT_TRUE(first && second && third);
  EXPECT_TRUE(first->embed);
  EXPECT_EQ(first->identity, sharing.identity);
  EXPECT_EQ(first->sources, std::vector<std::string>{"http://a/v1/slices"});
  EXPECT_EQ(second->first_layer, 0);
  EXPECT_EQ(second->last_layer, 0);
  EXPECT_EQ(third->first_layer, 2);
  EXPECT_EQ(third->last_layer, 3);
  EXPECT_FALSE(ask("w"));
  EXPECT_EQ(ask("y")->first_layer, 0);  // it keeps its own
  EXPECT_NE(topology.GridJson().find("\"spares\":4"), std::string::npos);
  // Who failed rests, and another one takes over.
  EXPECT_FALSE(ask("y", "no such slice"));
  EXPECT_EQ(ask("w")->first_layer, 0);
  // What is served is nobody's task any more.
  ASSERT_TRUE(topology.Add(Facts("b", 2, 3)).ok());
  EXPECT_FALSE(ask("z"));
  ASSERT_TRUE(topology.Assign({"x", "", true}).ok());
  EXPECT_TRUE(ask("z")->embed);
}

TEST(GapLeasesTest, ASpareIsFreeAgainWhenItsGapIsFilledOrItHasFailedOrGone) {
  GapLeases leases;
  const SteadyTime start = std::chrono::steady_clock::now();
  const Gap low{false, 0, 1}, high{false, 2, 3};
  const Gap both[] = {low, high}, second[] = {high};
  EXPECT_EQ(**leases.Take("x", both, start), low);
  EXPECT_EQ(**leases.Take("y", both, start), high);
  EXPECT_FALSE(*leases.Take("x", second, start));  // filled, and the other is y's
  leases.Fail("y", start);
  EXPECT_FALSE(*leases.Take("y", second, start));  // rests
  EXPECT_EQ(**leases.Take("x", second, start), high);
  EXPECT_FALSE(*leases.Take("y", second, start + GapLeases::kRest));
  leases.Remove("x");
  EXPECT_EQ(**leases.Take("y", second, start + GapLeases::kRest), high);
  EXPECT_EQ(leases.size(start + GapLeases::kRest), 1u);
}

TEST(GapLeasesTest, ASilentSpareLosesItsGap) {
  GapLeases leases;
  const std::vector<Gap> gaps = {{.first = 2, .last = 5}};
  const SteadyTime start = std::chrono::steady_clock::now();
  EXPECT_TRUE(*leases.Take("x", gaps, start));
  EXPECT_FALSE(*leases.Take("y", gaps, start + GapLeases::kLease));
  EXPECT_TRUE(*leases.Take("y", gaps, start + GapLeases::kLease + std::chrono::seconds(1)));
  for (size_t i = 0; i < GapLeases::kMostSpares - 1; ++i) {
    ASSERT_TRUE(leases.Take(std::to_string(i), gaps, start + 2 * GapLeases::kLease).ok());
  }
  EXPECT_EQ(leases.Take("one more", gaps, start + 2 * GapLeases::kLease).status().code(),
            StatusCode::kResourceExhausted);
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

TEST(TopologyTest, TakesWhoFailedLastOnlyWhenNobodyElseIsThere) {
  Topology topology;
  ASSERT_TRUE(topology.Add(Facts("a", 0, 3)).ok() && topology.Add(Facts("b", 0, 3)).ok());
  const auto members = topology.members();
  members->front()->shunned_until = std::chrono::steady_clock::now() + std::chrono::hours(1);
  size_t others = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(topology.Pick(FrameKind::kFfn, 2, {}, &others), members->back());
    EXPECT_EQ(others, 1u);
  }
  const std::vector<MemberPtr> tried = {members->back()};
  EXPECT_EQ(topology.Pick(FrameKind::kFfn, 2, tried, &others), members->front());
  EXPECT_EQ(others, 0u);
}

// How a member answers.
enum class Manner { kRight, kNotFinite, kShort, kOtherModel, kHangs };

struct Part {
  std::unique_ptr<PartService> service;
  std::unique_ptr<FrameServer> server;
  std::atomic<Manner> manner = Manner::kRight;
  std::atomic<int> bad_answers = 0;
  std::atomic<uint32_t> stated_time = 0;  // of the last request
  std::atomic<bool> released = false;     // those that hang end

  ~Part() {
    released = true;
    released.notify_all();
  }
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
  Status Answer(const FrameHeader& request, std::span<const std::byte> payload,
                std::string* answer);
};

// Damages an answer behind its checksums, as a server with an error would.
void Spoil(Manner manner, std::string* answer) {
  const auto bytes = std::as_bytes(std::span(*answer));
  FrameHeader header = *ParseFrameHeader(bytes.first(kFrameHeaderBytes));
  std::string payload = answer->substr(kFrameHeaderBytes);
  answer->clear();
  if (manner == Manner::kNotFinite) payload.replace(payload.size() - 4, 4, "\xff\xff\xff\xff");
  if (manner == Manner::kOtherModel) header.identity[0] ^= std::byte{1};
  if (manner == Manner::kShort && header.type == PayloadType::kBytes) {
    --header.width;
    payload.resize(payload.size() - 8);
  } else if (manner == Manner::kShort) {
    --header.width;
    payload.resize(payload.size() - 4 * header.rows);
  }
  AppendBytesFrame(header, payload, answer);
}

Status Part::Answer(const FrameHeader& request, std::span<const std::byte> payload,
                    std::string* answer) {
  const Manner now = manner;
  if (request.kind != FrameKind::kStats) stated_time = request.time;
  PERGOLA_RETURN_IF_ERROR(service->Handle(request, payload, answer));
  if (now == Manner::kRight || request.kind == FrameKind::kStats) return OkStatus();
  ++bad_answers;
  if (now == Manner::kHangs) {
    released.wait(false);
    return OkStatus();
  }
  Spoil(now, answer);
  return OkStatus();
}

std::unique_ptr<Part> Serve(Role role, const FrameServerOptions& serving = {}) {
  auto part = std::make_unique<Part>();
  PartOptions options;
  options.role = role;
  options.ops.num_threads = 1;
  part->service = *PartService::Load(kModel, options);
  part->server = *FrameServer::Start(
      serving,
      [raw = part.get()](const FrameHeader& request, std::span<const std::byte> payload,
                         std::string* answer) { return raw->Answer(request, payload, answer); });
  return part;
}

// Ids or a row of ones for `kind`, as a client sends them.
std::string Request(const service::GridMemberFacts& facts, FrameKind kind, uint32_t time = 0) {
  FrameHeader header{.kind = kind, .type = PayloadType::kF32};
  header.identity = ShortIdentityOf(facts.identity);
  header.request_id = 9;
  header.time = time;
  if (kind == FrameKind::kFfn) header.argument = 1;
  if (kind == FrameKind::kTop) header.argument = 3;
  std::string frame;
  if (kind == FrameKind::kEmbed) {
    const std::vector<int32_t> ids = {1, 2};
    header.type = PayloadType::kBytes;
    header.rows = 2;
    AppendBytesFrame(header, {reinterpret_cast<const char*>(ids.data()), 8}, &frame);
    return frame;
  }
  const std::vector<float> row(static_cast<size_t>(facts.hidden_size), 1.0F);
  EXPECT_TRUE(
      AppendRowsFrame(header, ConstF32Matrix(row.data(), 1, facts.hidden_size), &frame).ok());
  return frame;
}

Status Ask(Router& router, const std::string& frame, std::string* answer) {
  const auto bytes = std::as_bytes(std::span(frame));
  answer->clear();
  return router.Handle(*ParseFrameHeader(bytes.first(kFrameHeaderBytes)),
                       bytes.subspan(kFrameHeaderBytes), answer);
}

class RouterTest : public ::testing::Test {
 protected:
  // One row of ones through layer 1.
  Status Ask(std::string* answer) {
    return grid::Ask(router_, Request(*topology_.model(), FrameKind::kFfn), answer);
  }
  // Everybody may be picked again.
  void Forgive() {
    for (const MemberPtr& member : *topology_.members()) member->shunned_until = SteadyTime::min();
  }

  Topology topology_;
  Router router_{topology_};
};

TEST_F(RouterTest, AnswersFromAReplicaWhenOneIsGoneOrAnswersWrongly) {
  for (const FrameKind kind :
       {FrameKind::kFfn, FrameKind::kEmbed, FrameKind::kLogits, FrameKind::kTop}) {
    const Role role = kind == FrameKind::kFfn ? Role::kFfn : Role::kEmbed;
    Topology topology;
    Router router(topology);
    auto first = Serve(role), second = Serve(role);
    ASSERT_TRUE(topology.Add(first->Facts()).ok());
    const std::string request = Request(first->Facts(), kind);
    std::string expected, answer;
    ASSERT_TRUE(grid::Ask(router, request, &expected).ok());
    ASSERT_TRUE(topology.Add(second->Facts()).ok());
    const auto rows = [](const std::string& frame) { return frame.substr(kFrameHeaderBytes); };
    for (const Manner manner : {Manner::kNotFinite, Manner::kShort, Manner::kOtherModel}) {
      SCOPED_TRACE(testing::Message() << "kind " << int(kind) << " manner " << int(manner));
      first->manner = manner;
      first->bad_answers = 0;
      // Whom the router draws is its affair: until the bad one was asked, several times.
      for (int i = 0; i < 1000 && first->bad_answers < 3; ++i) {
        for (const MemberPtr& member : *topology.members()) {
          member->shunned_until = SteadyTime::min();
        }
        ASSERT_TRUE(grid::Ask(router, request, &answer).ok());
        ASSERT_EQ(rows(answer), rows(expected));
      }
      EXPECT_EQ(first->bad_answers, 3);
      EXPECT_EQ(topology.members()->front()->failures.exchange(0), 3u);
    }
    // Nobody else: an error, and not a byte of the bad answer.
    second->manner = Manner::kNotFinite;
    EXPECT_EQ(grid::Ask(router, request, &answer).code(), StatusCode::kUnavailable);
    EXPECT_EQ(answer, "");
    second->manner = Manner::kRight;
    first.reset();
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(grid::Ask(router, request, &answer).ok());
      EXPECT_EQ(rows(answer), rows(expected));
    }
  }
}

TEST_F(RouterTest, AServerThatHangsLeavesTimeForItsReplicaAndIsThenAskedLast) {
  auto hanging = Serve(Role::kFfn), good = Serve(Role::kFfn);
  ASSERT_TRUE(topology_.Add(hanging->Facts()).ok() && topology_.Add(good->Facts()).ok());
  hanging->manner = Manner::kHangs;
  constexpr uint32_t kTimeMs = 400;
  const std::string request = Request(hanging->Facts(), FrameKind::kFfn, kTimeMs);
  std::string answer;
  for (int i = 0; i < 1000 && hanging->bad_answers == 0; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(grid::Ask(router_, request, &answer).ok());
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(kTimeMs));
  }
  EXPECT_EQ(hanging->bad_answers, 1);
  EXPECT_LE(hanging->stated_time, kTimeMs / 2);  // it is told that less time is left
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(grid::Ask(router_, request, &answer).ok());
  EXPECT_EQ(hanging->bad_answers, 1);
}

TEST_F(RouterTest, AllTriesEndWithinTheRequestsTimeAndACancelEndsThemSooner) {
  auto first = Serve(Role::kFfn), second = Serve(Role::kFfn);
  ASSERT_TRUE(topology_.Add(first->Facts()).ok() && topology_.Add(second->Facts()).ok());
  first->manner = second->manner = Manner::kHangs;
  std::string answer;
  const auto start = std::chrono::steady_clock::now();
  const Status status = grid::Ask(router_, Request(first->Facts(), FrameKind::kFfn, 200), &answer);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_GE(first->bad_answers + second->bad_answers, 2);
  // The time-out of a member that keeps its connection, and a wide margin: far below longest_try.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
  std::thread caller([&] {
    EXPECT_EQ(grid::Ask(router_, Request(first->Facts(), FrameKind::kFfn), &answer).code(),
              StatusCode::kUnavailable);
  });
  while (first->bad_answers + second->bad_answers < 3) std::this_thread::yield();
  router_.Cancel();
  caller.join();
}

TEST_F(RouterTest, ARequestWithLittleTimeSaysNothingAboutTheMembers) {
  auto first = Serve(Role::kFfn), second = Serve(Role::kFfn);
  first->manner = second->manner = Manner::kHangs;
  std::string answer;
  for (const auto* part : {first.get(), second.get()}) {  // alone, then with another one to ask
    ASSERT_TRUE(topology_.Add(part->Facts()).ok());
    const std::string request = Request(first->Facts(), FrameKind::kFfn, 60);
    EXPECT_EQ(grid::Ask(router_, request, &answer).code(), StatusCode::kUnavailable);
    for (const MemberPtr& member : *topology_.members()) {
      EXPECT_EQ(member->failures, 0u);
      EXPECT_EQ(member->shunned_until.load(), SteadyTime::min());
    }
  }
  EXPECT_GE(first->bad_answers, 1);
}

TEST_F(RouterTest, ShowsAMemberTheKeyThatItJoinedWith) {
  FrameServerOptions serving;
  serving.admits = [](std::string_view key) { return key == "sk-member"; };
  const auto part = Serve(Role::kFfn, serving);
  service::GridMemberFacts facts = part->Facts();
  std::string answer;
  for (const char* key : {"", "sk-other"}) {
    facts.key = key;
    ASSERT_TRUE(topology_.Add(facts).ok());
    const Status status = Ask(&answer);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("frames need a key"), std::string::npos) << status.message();
  }
  facts.key = "sk-member";
  ASSERT_TRUE(topology_.Add(facts).ok());
  EXPECT_TRUE(Ask(&answer).ok());
  topology_.CountRefused();
  const std::string shown = topology_.GridJson();
  EXPECT_EQ(shown.find("sk-member"), std::string::npos);
  EXPECT_NE(shown.find("\"frames_refused\":1,"), std::string::npos) << shown;
  facts.key = std::string(1001, 'x');
  EXPECT_EQ(topology_.Add(facts).status().code(), StatusCode::kInvalidArgument);
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
