// The table of one instruction set. Included last by each file of isa/, after its vectors.
#pragma once

#include "kernels/cpu/vec/checksum-inl.h"
#include "kernels/cpu/vec/vector-inl.h"
// Each of these builds on the ones before it.
#include "kernels/cpu/vec/math-inl.h"
#include "kernels/cpu/vec/tiles-inl.h"
// Clients of the tiles and of math.
#include "kernels/cpu/vec/elementwise-inl.h"
// Takes RoundToBF16 from there.
#include "kernels/cpu/vec/attention-inl.h"
#include "kernels/cpu/vec/linear-inl.h"
// Formats of its own for linear-inl.h's loops.
#include "kernels/cpu/vec/groups-inl.h"
#include "kernels/cpu/vec/norms-inl.h"
#include "kernels/cpu/vec/rotated-inl.h"
#include "kernels/cpu/vec/rows-inl.h"
// Takes FindPages from there.
#include "kernels/cpu/vec/peaks-inl.h"

namespace {

template <class Operands>
constexpr pergola::kernels::cpu::AttentionKernels MakeAttentionKernels() {
  return {PackKeys<Operands>, PackValues<Operands>, AttentionBlock<Operands>};
}

constexpr pergola::kernels::cpu::KernelTable MakeTable() {
  pergola::kernels::cpu::KernelTable table = {};
  table.linear[0] = LinearBlock<DirectPanels<float>>;
  table.linear[1] = HalfLinearBlock<F16>;
  table.linear[2] = HalfLinearBlock<BF16>;
  table.linear[3] = QuantisedLinearBlock<Q8Block>;
  table.linear[4] = QuantisedLinearBlock<Q4Block>;
  table.quantise_row = QuantiseRow;
  if constexpr (kHasByteDot) {
    table.linear[5] = FoursLinearBlock;
    table.quantise_blocks = QuantiseBlocks;
  }
  if constexpr (kHasBF16Dot) {
    table.linear[6] = LinearBlock<PairsPanels>;
    table.round_to_bf16 = RoundToBF16;
  }
  if constexpr (kHasWideByteDot) {
    table.linear[7] = LinearBlock<BytePanels<ByteFours>>;
    table.quantise_rotated = QuantiseRotated;
  }
  table.linear[8] = LinearBlock<GroupPanels<Sixteens>>;
  table.linear[9] = LinearBlock<GroupPanels<OffsetBytes>>;
  table.linear[10] = LinearBlock<GroupPanels<OffsetNibbles>>;
  table.sum_blocks = SumBlocks;
  table.linear[11] = RowsBlock<PlainRow<float>>;
  table.linear[12] = RowsBlock<PlainRow<F16>>;
  table.linear[13] = RowsBlock<PlainRow<BF16>>;
  table.linear[14] = RowsBlock<Q8Row>;
  table.decode_row[0] = DecodeRow<PlainRow<float>>;
  table.decode_row[1] = DecodeRow<PlainRow<F16>>;
  table.decode_row[2] = DecodeRow<PlainRow<BF16>>;
  table.decode_row[3] = DecodeRow<Q8Row>;
#if defined(__VPCLMULQDQ__)
  table.send_row[0] = SendRow<PlainRow<float>>;
  table.send_row[1] = SendRow<PlainRow<F16>>;
  table.send_row[2] = SendRow<PlainRow<BF16>>;
  table.send_row[3] = SendRow<Q8Row>;
  table.folded_crc32c = CrcByFolding;
#endif
  table.layer_norm = LayerNorm;
  table.rms_norm = RmsNorm;
  table.rms_norm_add = RmsNormAdd;
  table.scale_row = ScaleRow;
  table.add_row = AddRow;
  table.gated_row = GatedRow;
  table.rope_row = RopeRow;
  table.mean_rows = MeanRows;
  table.attention_f32 = MakeAttentionKernels<F32Operands>();
  if constexpr (kHasBF16Dot) table.attention_bf16 = MakeAttentionKernels<BF16Operands>();
  table.peaks[0] = RunPeak<F32Peak>;
  if constexpr (kHasPairDot) table.peaks[1] = RunPeak<PairDotPeak>;
  if constexpr (kHasByteDot) table.peaks[2] = RunPeak<ByteDotPeak>;
  if constexpr (kHasBF16Dot) table.peaks[3] = RunPeak<BF16DotPeak>;
  table.read_bytes = ReadBytes;
  if constexpr (kHasCrc) table.crc32c = Crc32c;
  return table;
}

}  // namespace
