#include "scheduler/fair_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace pergola::scheduler {
namespace {

TEST(FairOrderTest, OneTenantIsServedInOrderOfArrival) {
  FairOrder order;
  FairOrder::Turn last = 0;
  for (int64_t tokens = 1; tokens < 50; ++tokens) {
    const FairOrder::Turn turn = order.Enter("a", tokens);
    EXPECT_GE(turn, last);
    last = turn;
  }
}

TEST(FairOrderTest, ANewcomerStandsBeforeABacklog) {
  FairOrder order;
  const FairOrder::Turn first = order.Enter("busy", 100);
  const FairOrder::Turn second = order.Enter("busy", 100);
  const FairOrder::Turn newcomer = order.Enter("quiet", 100);
  EXPECT_EQ(first, newcomer);
  EXPECT_LT(newcomer, second);
}

TEST(FairOrderTest, IdlenessEarnsNothing) {
  FairOrder order;
  for (int i = 0; i < 10; ++i) order.Serve(order.Enter("busy", 100));
  const FairOrder::Turn busy = order.Enter("busy", 100);
  const FairOrder::Turn quiet = order.Enter("quiet", 100);
  EXPECT_LE(busy - quiet, 100U);
  EXPECT_GT(order.Enter("quiet", 1), busy - 1);
}

TEST(FairOrderTest, ForgetsTenantsThatAreIdle) {
  FairOrder order;
  for (int tenant = 0; tenant < 10'000; ++tenant) {
    order.Serve(order.Enter(std::to_string(tenant), 1));
    order.Serve(order.Enter("clock", 10));
  }
  EXPECT_LT(order.tenants(), 200U);
}

// Random arrivals of a greedy tenant and of modest ones against a server of one sequence at a time:
// nobody who waits is served more than a largest sequence per tenant behind the greedy one.
TEST(FairOrderTest, WhoeverWaitsGetsAnEqualShare) {
  constexpr int64_t kLargest = 64;
  constexpr int kTenants = 4;
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    FairOrder order;
    struct Waiting {
      FairOrder::Turn turn;
      int tenant;
      int64_t tokens;
    };
    std::vector<Waiting> queue;
    const auto arrive = [&](int tenant) {
      const int64_t tokens = 1 + static_cast<int64_t>(random() % kLargest);
      queue.push_back({order.Enter(std::to_string(tenant), tokens), tenant, tokens});
      std::stable_sort(queue.begin(), queue.end(),
                       [](const Waiting& a, const Waiting& b) { return a.turn < b.turn; });
    };
    for (int i = 0; i < 40; ++i) arrive(0);  // greedy: all at once
    for (int tenant = 1; tenant < kTenants; ++tenant) {
      for (int i = 0; i < 10; ++i) arrive(tenant);
    }
    std::map<int, int64_t> served;
    std::map<int, int> waiting = {{0, 40}, {1, 10}, {2, 10}, {3, 10}};
    while (waiting[1] > 0 && waiting[2] > 0 && waiting[3] > 0) {
      const Waiting next = queue.front();
      queue.erase(queue.begin());
      order.Serve(next.turn);
      served[next.tenant] += next.tokens;
      --waiting[next.tenant];
      for (int tenant = 1; tenant < kTenants; ++tenant) {
        ASSERT_LE(served[0] - served[tenant], 2 * kLargest) << "round " << round;
        ASSERT_LE(served[tenant] - served[0], 2 * kLargest) << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace pergola::scheduler
