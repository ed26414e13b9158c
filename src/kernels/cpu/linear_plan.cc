#include "kernels/cpu/linear_plan.h"

#include <algorithm>

namespace pergola::kernels::cpu {
namespace {

// Some 2 us at 50 G multiply-adds per second: a few times what claiming an item costs.
constexpr int64_t kMinTaskMultiplyAdds = 100'000;
// Items per thread that even out a thread which loses its core for a while.
constexpr int64_t kTasksPerThread = 6;
// A multiple of every instruction set's tile height.
constexpr int64_t kTileRows = 12;

int64_t CeilDivide(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

LinearPlan::Range LinearPlan::ItemRows(int64_t item) const {
  const int64_t begin = item % row_blocks() * rows_per_block;
  return {begin, std::min(rows, begin + rows_per_block)};
}

LinearPlan::Range LinearPlan::ItemPanels(int64_t item) const {
  const int64_t begin = item / row_blocks() * panels_per_block;
  return {begin, std::min(num_panels, begin + panels_per_block)};
}

LinearPlan PlanLinear(int64_t rows, int64_t num_panels, int64_t inputs, int num_threads) {
  LinearPlan plan;
  plan.rows = rows;
  plan.num_panels = num_panels;
  const int64_t row_blocks = std::max<int64_t>(1, CeilDivide(rows, kMaxTaskRows));
  plan.rows_per_block = std::min(
      kMaxTaskRows, RoundUp(std::max<int64_t>(1, CeilDivide(rows, row_blocks)), kTileRows));
  const int64_t per_panel = std::min(rows, plan.rows_per_block) * inputs * kPanelCols;
  const int64_t enough = CeilDivide(kMinTaskMultiplyAdds, std::max<int64_t>(1, per_panel));
  const int64_t wanted_blocks = CeilDivide(kTasksPerThread * num_threads, row_blocks);
  // Multiples of 4 panels keep AVX2's wide tiles of few f32 rows whole.
  const int64_t panels = RoundUp(std::max(enough, num_panels / wanted_blocks), 4);
  plan.panels_per_block = std::min(panels, kMaxTaskPanels);
  return plan;
}

}  // namespace pergola::kernels::cpu
