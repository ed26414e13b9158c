// Linear weights in panels of 16 outputs, the layout that every CPU kernel set reads
// (kernel_table.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/large_memory.h"
#include "core/tensor.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"
#include "kernels/ops_types.h"

namespace pergola::kernels::cpu {

// The format that weights which are stored as `dtype` in rows of `inputs` values are kept in for
// the products that `table` has. Of what options.weights makes of them, plain types and, with
// kAuto, the integers of every block type but Q2_K keep their bits; everything else is widened to
// f32. But plain types of which int8 is asked become rotated bytes where `table` multiplies them.
// With options.in_place one of the kRows formats where there is one.
PanelFormat PanelFormatOf(DType dtype, int64_t inputs, const LinearOptions& options,
                          const KernelTable& table);

// The kRows format of rows of `dtype`, if there is one.
std::optional<PanelFormat> RowsFormatOf(DType dtype);

// Null where no kernel knows the rows of `dtype`.
RowDecoder RowDecoderOf(const KernelTable& table, DType dtype);
// The same of KernelTable::send_row.
RowSender RowSenderOf(const KernelTable& table, DType dtype);

// Bytes of one panel of K inputs.
int64_t PanelBytes(PanelFormat format, int64_t inputs);

// Owns its panels: the checkpoint's mapping is not needed any more; unless the format IsInPlace.
// Immutable, thread-safe.
class PanelWeight final : public LinearWeight {
 public:
  // Repacks a weight that CheckLinearWeight accepts. Large ones on `num_threads` threads of its
  // own, so that any thread may call it while the pool of the Ops is busy. Where the format
  // IsInPlace nothing is read, and the tensor's memory must outlive this. `memory` need not.
  PanelWeight(TensorView weight, PanelFormat format, int num_threads, ChunkedMemory& memory);

  int64_t outputs() const override { return outputs_; }
  int64_t inputs() const override { return inputs_; }
  DType dtype() const override { return dtype_; }
  size_t owned_bytes() const override {
    return owned_ == nullptr ? 0 : static_cast<size_t>(num_panels() * panel_bytes_);
  }
  bool rotates_rows() const override { return format_ == PanelFormat::kRotatedBytes; }

  PanelFormat format() const { return format_; }
  const std::byte* panels() const { return panels_; }
  int64_t panel_bytes() const { return panel_bytes_; }
  int64_t num_panels() const { return (outputs_ + kPanelCols - 1) / kPanelCols; }

 private:
  void PackPanels(const TensorView& weight, int64_t panel_begin, int64_t panel_end);

  int64_t outputs_;
  int64_t inputs_;
  DType dtype_;
  PanelFormat format_;
  int64_t panel_bytes_;
  std::shared_ptr<std::byte> owned_;
  const std::byte* panels_;  // what is owned, or the checkpoint's rows
};

}  // namespace pergola::kernels::cpu
