#include "kernels/row_decoder.h"

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panel_weight.h"
#include "kernels/dequantise.h"
#include "kernels/select.h"

namespace pergola::kernels {
void DecodeRow(const TensorView& table, int64_t row, float scale, float* out) {
  const int64_t cols = table.cols();
  if (const cpu::RowDecoder decode = cpu::RowDecoderOf(BestKernelTable(), table.dtype)) {
    return decode(table.row(row), cols, scale, out);
  }
  DequantiseRow(table.dtype, table.row(row), cols, out);
  for (int64_t col = 0; col < cols; ++col) out[col] *= scale;
}

void PrefetchRow(const TensorView& table, int64_t row) {
  constexpr int64_t kLine = 64;
  const std::byte* const bytes = table.row(row);
  // To the second-level cache: two rows of a wide table are more than half of the first.
  for (int64_t at = 0; at < table.row_bytes(); at += kLine) __builtin_prefetch(bytes + at, 0, 2);
}

}  // namespace pergola::kernels
