#include "core/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <mutex>
#include <numeric>
#include <vector>

#include "core/testing/eventually.h"

namespace pergola {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunsEveryItemOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_threads(), GetParam());
  for (int64_t items : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(items));
    pool.ParallelFor(items, [&](int64_t item) { calls[static_cast<size_t>(item)].fetch_add(1); });
    for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
  }
}

// The holder's first item lasts until all others are done, those of its own share among them.
TEST(ThreadPoolShareTest, WhoIsDoneTakesTheItemsOfOthersFromTheEnd) {
  for (int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    const int64_t items = 50 * threads;
    std::atomic<int64_t> others{0};
    std::mutex mutex;
    std::vector<std::vector<int64_t>> ran(static_cast<size_t>(threads));
    pool.ParallelForWithThread(items, [&](int64_t item, int thread) {
      {
        const std::lock_guard lock(mutex);
        ran[static_cast<size_t>(thread)].push_back(item);
      }
      if (item == 0) {
        EXPECT_TRUE(Eventually([&] { return others.load() == items - 1; }));
      } else {
        ++others;
      }
    });
    // Else the holder had no core until item 0, too, was taken.
    if (ran[0].empty() || ran[0][0] != 0) continue;
    EXPECT_EQ(ran[0], std::vector<int64_t>{0});
    for (int thread = 1; thread < threads; ++thread) {
      std::vector<int64_t> of_the_holder, of_its_own;
      for (int64_t item : ran[static_cast<size_t>(thread)]) {
        if (item < 50) of_the_holder.push_back(item);
        if (item / 50 == thread) of_its_own.push_back(item);
      }
      EXPECT_TRUE(std::is_sorted(of_the_holder.rbegin(), of_the_holder.rend()));
      EXPECT_TRUE(std::is_sorted(of_its_own.begin(), of_its_own.end()));
    }
  }
}

// Nobody ends its first item before all threads have begun one. No pass is open: a worker that it
// wakes may look at the shares of others first.
TEST(ThreadPoolShareTest, EveryThreadBeginsWithItsOwnShare) {
  for (int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    std::atomic<int> begun{0};
    std::vector<int64_t> first(static_cast<size_t>(threads), -1);
    pool.ParallelForWithThread(2 * threads, [&](int64_t item, int thread) {
      int64_t& own = first[static_cast<size_t>(thread)];
      if (own >= 0) return;
      own = item;
      ++begun;
      EXPECT_TRUE(Eventually([&] { return begun.load() == threads; }));
    });
    for (int thread = 0; thread < threads; ++thread) {
      EXPECT_EQ(first[static_cast<size_t>(thread)], 2 * thread);
    }
  }
}

// Plain writes of the workers must be seen by the holder, and the other way round: what TSan
// checks.
TEST_P(ThreadPoolTest, ManySmallLoopsInOnePassSeeEachOthersWrites) {
  ThreadPool pool(GetParam());
  const ThreadPool::Pass pass(pool);
  std::vector<int64_t> values(37, 0);
  const int64_t size = static_cast<int64_t>(values.size());
  for (int64_t round = 0; round < 3000; ++round) {
    pool.ParallelFor(size, [&](int64_t item) { values[static_cast<size_t>(item)] += item; });
    values[0] += 1;
  }
  for (int64_t item = 1; item < size; ++item) {
    EXPECT_EQ(values[static_cast<size_t>(item)], 3000 * item);
  }
  EXPECT_EQ(values[0], 3000);
}

TEST_P(ThreadPoolTest, WorksOutsideAndBetweenPasses) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 50; ++round) {
    pool.ParallelFor(10, [&](int64_t item) { sum += item; });
    const ThreadPool::Pass outer(pool);
    {
      const ThreadPool::Pass inner(pool);
      pool.ParallelFor(10, [&](int64_t item) { sum += item; });
    }
    pool.ParallelFor(10, [&](int64_t item) { sum += item; });
  }
  EXPECT_EQ(sum.load(), 50 * 3 * 45);
}

TEST_P(ThreadPoolTest, ThreadNumbersAreInRangeAndNeverSharedAtOneTime) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> busy(static_cast<size_t>(GetParam()));
  std::atomic<int> wrong{0};
  const ThreadPool::Pass pass(pool);
  for (int round = 0; round < 200; ++round) {
    pool.ParallelForWithThread(50, [&](int64_t, int thread) {
      if (thread < 0 || thread >= GetParam()) {
        wrong.fetch_add(1);
        return;
      }
      if (busy[static_cast<size_t>(thread)].fetch_add(1) != 0) wrong.fetch_add(1);
      busy[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ThreadPoolTest, IdlePoolsAreDestroyedCleanly) {
  for (int round = 0; round < 20; ++round) {
    ThreadPool pool(GetParam());
    if (round % 2 == 0) {
      const ThreadPool::Pass pass(pool);
    }
  }
}

double CpuSeconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// CPU time of many short loops in one pass.
double CpuSecondsOfLoops(int num_threads) {
  ThreadPool pool(num_threads);
  const ThreadPool::Pass pass(pool);
  const double began = CpuSeconds();
  for (int loop = 0; loop < 200; ++loop) {
    pool.ParallelFor(16, [](int64_t item) {
      volatile int64_t sum = item;
      for (int step = 0; step < 20000; ++step) sum = sum + step;
    });
  }
  return CpuSeconds() - began;
}

// A worker that has no core of its own must not burn the one that the others need: what a busy
// neighbour makes of the pool. CPU time, unlike time, does not depend on who else runs.
TEST(ThreadPoolCostTest, WorkersWithoutACoreCostLittle) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) GTEST_SKIP() << "no affinity mask";
  cpu_set_t one;
  CPU_ZERO(&one);
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  double alone = 1e9, crowded = 1e9;
  for (int round = 0; round < 3; ++round) {
    alone = std::min(alone, CpuSecondsOfLoops(1));
    crowded = std::min(crowded, CpuSecondsOfLoops(4));
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_LT(crowded, 1.5 * alone + 0.02);
}

// Neither the rounding of the thread that made the pool nor the holder's is inherited by the
// bodies.
TEST_P(ThreadPoolTest, BodiesRunInTheDefaultFloatEnvironment) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  ThreadPool pool(GetParam());
  std::vector<float> sums(64, 0.0f);
  std::vector<float> halves(64, 0.0f);
  volatile float one = 1.0f, tiny = 1e-10f, smallest_normal = 1.17549435e-38f;
  {
    const ThreadPool::Pass pass(pool);
    pool.ParallelFor(64, [&](int64_t item) {
      sums[static_cast<size_t>(item)] = one + tiny;
      halves[static_cast<size_t>(item)] = smallest_normal / 2.0f;
    });
  }
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  for (float sum : sums) EXPECT_EQ(sum, 1.0f);
  for (float half : halves) EXPECT_GT(half, 0.0f);
}

}  // namespace
}  // namespace pergola
