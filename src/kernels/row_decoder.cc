#include "kernels/row_decoder.h"

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panel_weight.h"
#include "kernels/dequantise.h"
#include "kernels/select.h"

namespace pergola::kernels {
namespace {

// Of the best set that this machine can run: the first to choose from that is no reference.
const cpu::KernelTable& BestTable() {
  static const cpu::KernelTable* const best = [] {
    const cpu::KernelTable* found = &cpu::kScalarTable;
    for (const KernelSet& set : ListKernelSets()) {
      if (!set.usable || !set.verified || set.table == nullptr) continue;
      found = set.table;
      break;
    }
    return found;
  }();
  return *best;
}

}  // namespace

void DecodeRow(const TensorView& table, int64_t row, float scale, float* out) {
  const int64_t cols = table.cols();
  if (const cpu::RowDecoder decode = cpu::RowDecoderOf(BestTable(), table.dtype)) {
    return decode(table.row(row), cols, scale, out);
  }
  DequantiseRow(table.dtype, table.row(row), cols, out);
  for (int64_t col = 0; col < cols; ++col) out[col] *= scale;
}

}  // namespace pergola::kernels
