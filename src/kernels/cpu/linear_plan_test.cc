#include "kernels/cpu/linear_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace pergola::kernels::cpu {
namespace {

TEST(LinearPlanTest, CoversEveryElementOnceWithinTheTaskLimits) {
  for (int64_t rows : {1, 2, 5, 12, 13, 95, 96, 97, 100, 250, 1000}) {
    for (int64_t panels : {1, 2, 3, 24, 48, 73, 192}) {
      for (int64_t inputs : {16, 384, 3072}) {
        for (int threads : {1, 2, 3, 16}) {
          const LinearPlan plan = PlanLinear(rows, panels, inputs, threads);
          std::vector<int> calls(static_cast<size_t>(rows * panels), 0);
          for (int64_t item = 0; item < plan.items(); ++item) {
            const auto [row_begin, row_end] = plan.ItemRows(item);
            const auto [panel_begin, panel_end] = plan.ItemPanels(item);
            ASSERT_LT(row_begin, row_end);
            ASSERT_LT(panel_begin, panel_end);
            ASSERT_LE(row_end - row_begin, kMaxTaskRows);
            ASSERT_LE(panel_end - panel_begin, kMaxTaskPanels);
            for (int64_t row = row_begin; row < row_end; ++row) {
              for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
                ++calls[static_cast<size_t>(row * panels + panel)];
              }
            }
          }
          for (int count : calls) ASSERT_EQ(count, 1) << rows << " x " << panels;
        }
      }
    }
  }
}

TEST(LinearPlanTest, ASingleRowUsesAllThreads) {
  EXPECT_GE(PlanLinear(1, 768 / 16, 768, 2).items(), 4);
  EXPECT_EQ(PlanLinear(0, 48, 768, 2).items(), 0);
}

}  // namespace
}  // namespace pergola::kernels::cpu
