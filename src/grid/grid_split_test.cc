// What a router's HTTP asks of a grid whose members hang: it ends when nobody waits any more.
#include "grid/grid_split.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "grid/frame_server.h"
#include "grid/part_service.h"

namespace pergola::grid {
namespace {

using std::chrono::steady_clock;

constexpr uint32_t kWidth = 4;
constexpr uint32_t kVocab = 10;

// A server of all parts that says what it is, and answers nothing else until it is released.
class HangingMember {
 public:
  HangingMember() {
    facts_.mode = "embed-service";
    facts_.identity = std::string(64, 'a');
    facts_.numeric_class = "none";
    facts_.hidden_size = kWidth;
    facts_.vocab_size = kVocab;
    facts_.num_layers = 1;
    facts_.layers = {0, 0};
    server_ =
        *FrameServer::Start({}, [this](const FrameHeader& request, std::span<const std::byte>,
                                       std::string* answer) { return Answer(request, answer); });
  }
  ~HangingMember() {
    released_ = true;
    released_.notify_all();
  }

  service::GridMemberFacts Facts() const {
    service::GridMemberFacts facts;
    facts.identity = facts_.identity;
    facts.numeric_class = facts_.numeric_class;
    facts.url = "pergola://127.0.0.1:" + std::to_string(server_->port());
    facts.embed = facts.head = facts.ffn = true;
    facts.first_layer = facts.last_layer = 0;
    facts.num_layers = 1;
    facts.hidden_size = kWidth;
    facts.vocab_size = kVocab;
    return facts;
  }
  // Waits for the next request.
  void AwaitRequest(int before) const { asked_.wait(before); }
  int asked() const { return asked_; }
  uint32_t stated_ms() const { return stated_ms_; }

 private:
  Status Answer(const FrameHeader& request, std::string* answer) {
    FrameHeader header = request;
    header.answer = true;
    if (request.kind == FrameKind::kStats) {
      answer->clear();
      AppendBytesFrame(header, FactsJson(facts_), answer);
      return OkStatus();
    }
    stated_ms_ = request.time;
    ++asked_;
    asked_.notify_all();
    released_.wait(false);
    return UnavailableError("released");
  }

  PartFacts facts_;
  std::atomic<int> asked_ = 0;
  std::atomic<uint32_t> stated_ms_ = 0;
  std::atomic<bool> released_ = false;
  std::unique_ptr<FrameServer> server_;  // last: its handlers use what stands above
};

// Every call of the service, by name.
struct NamedCall {
  const char* name;
  std::function<Status(GridSplit&, const service::SplitCall&)> make;
};

std::vector<NamedCall> AllCalls() {
  return {
      {"EmbedRows",
       [](GridSplit& split, const service::SplitCall& call) {
         const std::vector<int32_t> ids = {1, 2};
         std::vector<float> rows(2 * kWidth);
         return split.EmbedRows(call, ids, rows);
       }},
      {"ComputeLogits",
       [](GridSplit& split, const service::SplitCall& call) {
         const std::vector<float> residuals(kWidth, 1.0F);
         std::vector<float> logits(kVocab);
         return split.ComputeLogits(call, residuals, logits);
       }},
      {"TopTokens",
       [](GridSplit& split, const service::SplitCall& call) {
         const std::vector<float> residuals(kWidth, 1.0F);
         return split.TopTokens(call, residuals, 3, 0.5F).status();
       }},
      {"EncodeText",
       [](GridSplit& split, const service::SplitCall& call) {
         return split.EncodeText(call, "text", false).status();
       }},
      {"DecodeIds",
       [](GridSplit& split, const service::SplitCall& call) {
         return split.DecodeIds(call, std::vector<int32_t>{1}, false).status();
       }},
  };
}

class GridSplitTest : public ::testing::Test {
 protected:
  // Without a caller's limit a call would go on for an hour.
  static RouterOptions Patient() {
    RouterOptions options;
    options.longest_request = std::chrono::hours(1);
    return options;
  }
  void SetUp() override { ASSERT_TRUE(topology_.Add(member_.Facts()).ok()); }

  HangingMember member_;
  Topology topology_;
  Router router_{topology_, Patient()};
  GridSplit split_{topology_, router_};
};

TEST_F(GridSplitTest, TheCallersDeadlineEndsACallAndMembersAreToldOfIt) {
  for (const NamedCall& each : AllCalls()) {
    SCOPED_TRACE(each.name);
    const int before = member_.asked();
    const auto deadline = steady_clock::now() + std::chrono::milliseconds(100);
    EXPECT_EQ(each.make(split_, {.deadline = deadline}).code(), StatusCode::kDeadlineExceeded);
    EXPECT_GE(steady_clock::now(), deadline - std::chrono::milliseconds(1));
    if (member_.asked() == before) continue;  // a busy machine: the time was over before
    EXPECT_GT(member_.stated_ms(), 0u);
    EXPECT_LE(member_.stated_ms(), 100u);
  }
  EXPECT_EQ(topology_.members()->front()->in_flight, 0);
}

TEST_F(GridSplitTest, ACallerThatLeavesEndsACallAndNobodyIsToBlame) {
  for (const NamedCall& each : AllCalls()) {
    SCOPED_TRACE(each.name);
    const int before = member_.asked();
    service::CancelToken cancel;
    auto ended =
        std::async(std::launch::async, [&] { return each.make(split_, {.cancel = &cancel}); });
    member_.AwaitRequest(before);
    cancel.Cancel();
    EXPECT_EQ(ended.get().code(), StatusCode::kCancelled);
  }
  const MemberPtr member = topology_.members()->front();
  EXPECT_EQ(member->in_flight, 0);
  EXPECT_EQ(member->failures, 0u);
  EXPECT_EQ(member->shunned_until.load(), SteadyTime::min());
}

TEST_F(GridSplitTest, WhatNobodyWaitsForIsNotAsked) {
  service::CancelToken cancel;
  cancel.Cancel();
  for (const NamedCall& each : AllCalls()) {
    SCOPED_TRACE(each.name);
    EXPECT_EQ(each.make(split_, {.cancel = &cancel}).code(), StatusCode::kCancelled);
    EXPECT_EQ(each.make(split_, {.deadline = steady_clock::now()}).code(),
              StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(member_.asked(), 0);
  EXPECT_EQ(topology_.members()->front()->calls, 0u);
}

}  // namespace
}  // namespace pergola::grid
