// How a matrix product is cut into tasks. Never part of a result: every element is one chain over
// k, whichever task computes it.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace pergola::kernels::cpu {

// A grid of row blocks by panel blocks; the last ones may be smaller.
struct LinearPlan {
  int64_t rows = 0;
  int64_t num_panels = 0;
  int64_t rows_per_block = 1;
  int64_t panels_per_block = 1;

  int64_t row_blocks() const { return (rows + rows_per_block - 1) / rows_per_block; }
  int64_t panel_blocks() const { return (num_panels + panels_per_block - 1) / panels_per_block; }
  int64_t items() const { return row_blocks() * panel_blocks(); }

  struct Range {
    int64_t begin, end;
  };
  // Of item [0, items()): all row blocks of some panels come one after the other.
  Range ItemRows(int64_t item) const;
  Range ItemPanels(int64_t item) const;
};

// Cuts T rows, `num_panels` panels of K inputs into tasks of at most kMaxTaskRows x kMaxTaskPanels,
// large enough to be worth a hand-over and enough of them to keep the threads busy.
LinearPlan PlanLinear(int64_t rows, int64_t num_panels, int64_t inputs, int num_threads);

}  // namespace pergola::kernels::cpu
