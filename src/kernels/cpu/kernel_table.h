// What one instruction set offers to CpuOps: a const table of functions over raw pointers.
//
// Each file of isa/ is built with its own flags and exports exactly one symbol, its table;
// everything else of it is local, so that no linker can pick a copy of an inline function that
// another CPU can't run (scripts/isa_symbols.sh checks). CpuOps splits the work and calls these
// from pool threads; how it splits never changes a bit of the result (docs/numerics.md).
//
// Letters as in ops.h. Strides are in elements. Functions neither allocate nor fail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops_types.h"

namespace pergola::kernels::cpu {

// Columns of a weight panel. The same for every instruction set, so is the layout of LinearWeight.
inline constexpr int64_t kPanelCols = 16;
// Values per block of the quantised formats.
inline constexpr int64_t kBlock = 32;
// Largest block of a product that one call computes.
inline constexpr int64_t kMaxTaskRows = 96;
inline constexpr int64_t kMaxTaskPanels = 8;
// Attention works on at most so many queries of one head, and on key tiles of so many keys.
inline constexpr int64_t kQueryBlock = 48;
inline constexpr int64_t kKeyTile = 64;
// Distance vectors that one block of queries and one tile of keys meet, in whole panels: there are
// at most kQueryBlock + kKeyTile - 1 distances, and the first need not begin a panel.
inline constexpr int64_t kDistanceTile = 128;

// How a panel stores its K x 16 weights; n is the column within the panel.
enum class PanelFormat {
  kF32,   // f32 [K][n]
  kF16,   // u16 [K][n]
  kBF16,  // u16 [K][n]
  // Per block of 32 k: i8 [16 pairs][n][2], then f16 scales [n]. 544 bytes.
  kQ8Blocks,
  // The same 512 values as nibbles of two's complement: u32 [4 eights][n]; of its eight k the even
  // ones from bit 0 on, the odd ones from bit 16 on, so that a shift leaves the two of a pair. Then
  // f16 scales [n]. 288 bytes.
  kQ4Blocks,
  // The same blocks for byte products, values + 8: byte [4 fours][n][4] holds value 4 * four + i
  // (low) and 16 further (high), then f16 scales [n]. 288 bytes.
  kQ4Fours,
  kBF16Pairs,  // u16 [K / 2, rounded up][n][2]
  // Values rotated 128 k at a time (rotation.h), then per block of 32 k: byte [8 fours][n][4] holds
  // value + 128, then f32 scales [n], divided by 128 to undo both rotations. 576 bytes.
  kRotatedBytes,
  // Integers of 16-bit rows' products with more than one f16 scale per block. Per block of 32 k:
  kSixteens,     // i8 [16 pairs][n][2], f32 steps of the first 16 k [n], of the last 16 [n]
  kOffsetBytes,  // i8 [16 pairs][n][2], f32 steps [n], f32 offsets [n]. Both 640 bytes.
  // Nibbles, unsigned, in the order of kQ4Blocks, f32 steps [n], f32 offsets [n]. 384 bytes.
  kOffsetNibbles,
  // No panels: the rows [16][K] of the checkpoint itself, of the last "panel" only those that there
  // are.
  kRowsF32,
  kRowsF16,
  kRowsBF16,
  kRowsQ8,
};
inline constexpr int kNumPanelFormats = 15;

// How the activations lie that a format is multiplied with.
enum class RowFormat {
  kF32,
  kI16Row,     // i16 and one scale per row
  kI16Sums,    // the same, and the sum of every block of 32
  kI8Block,    // i8, and per block of 32 a scale
  kBF16Row,    // rounded to bf16; an odd K is filled up with a zero
  kI8Rotated,  // rotated 128 at a time, then as kI8Block
};
constexpr RowFormat RowFormatOf(PanelFormat format) {
  switch (format) {
    case PanelFormat::kQ8Blocks:
    case PanelFormat::kQ4Blocks:
      return RowFormat::kI16Row;
    case PanelFormat::kSixteens:  // has no use for sums, but shares rows with the others
    case PanelFormat::kOffsetBytes:
    case PanelFormat::kOffsetNibbles:
      return RowFormat::kI16Sums;
    case PanelFormat::kQ4Fours:
      return RowFormat::kI8Block;
    case PanelFormat::kBF16Pairs:
      return RowFormat::kBF16Row;
    case PanelFormat::kRotatedBytes:
      return RowFormat::kI8Rotated;
    case PanelFormat::kF32:
    case PanelFormat::kF16:
    case PanelFormat::kBF16:
    case PanelFormat::kRowsF32:
    case PanelFormat::kRowsF16:
    case PanelFormat::kRowsBF16:
    case PanelFormat::kRowsQ8:
      break;
  }
  return RowFormat::kF32;
}
// Whether the checkpoint's own memory is read.
constexpr bool IsInPlace(PanelFormat format) { return format >= PanelFormat::kRowsF32; }
inline constexpr int kNumRowsFormats = kNumPanelFormats - static_cast<int>(PanelFormat::kRowsF32);

// Scales of the blocks of one row of bytes, and where the sum of each begins: a weight's byte
// stands for its value less 8 (nibbles) or 128, so at -8 or -128 times the row's, as ByteDotStart
// keeps it.
struct BlockScales {
  float* scale;
  int32_t* start;
};

// y[r, n] = epilogue(sum over k of a[r, k] * w[k, n], bias[n]) for some rows and some panels.
struct LinearTask {
  const void* a;  // rows of RowFormatOf(the weight's format); row 0 of the matrix
  int64_t a_stride;
  const float* row_scale;      // [T] for i16 rows, else null
  const float* block_scale;    // [T, K / 32] for i8 blocks, else null
  const int32_t* block_start;  // [T, K / 32] for i8 blocks; for i16 rows with sums: those
  const std::byte* panels;     // panel 0 of the weight
  int64_t panel_bytes;
  int64_t inputs;   // K
  int64_t outputs;  // N; the last panel may be partly padding
  const float* bias;
  Epilogue epilogue;
  float* y;
  int64_t y_stride;
  int64_t row_begin, row_end;      // at most kMaxTaskRows
  int64_t panel_begin, panel_end;  // at most kMaxTaskPanels
  std::byte* scratch;              // kLinearScratchBytes, 64-byte aligned, this thread's own
};
// Partial sums, widened weights and widened scales.
inline constexpr size_t kPartialBytes =
    static_cast<size_t>(kMaxTaskRows * kMaxTaskPanels * kPanelCols) * sizeof(float);
inline constexpr size_t kWidenedBytes = 16384;
inline constexpr size_t kScaleBytes = 1024;
inline constexpr size_t kLinearScratchBytes = kPartialBytes + kWidenedBytes + kScaleBytes;

// Queries [query_begin, query_end) (at most kQueryBlock) of one head of one sequence of `length`
// tokens.
struct AttentionTask {
  const float* q;  // the head's columns of the sequence's row 0
  int64_t q_stride;
  // Packed, so that neither a tile of keys nor one of values depends on how far rows are apart: a
  // stride of a power of two would map a whole tile to a few sets of the first-level cache.
  const std::byte* keys;    // by pack_keys, all of the sequence
  const std::byte* values;  // by pack_values
  int64_t length;
  int64_t width;  // W
  int64_t query_begin, query_end;
  float scale;
  AttentionMask mask;
  const float* distance_bias;  // of this head, [2 * bias_reach + 1], or null
  int64_t bias_reach;
  // Distance vectors of this head, [R / 16][W][16] each, null: no such term. They are looked up by
  // distance in [2 * distance_reach + 1] rows; no rows: neither of them.
  const int32_t* distance_rows;
  int64_t distance_reach;
  const float* distance_keys;
  const float* distance_queries;
  const float* key_rows;  // the head's columns of the sequence's key 0, as they are
  int64_t key_stride;
  float* out;  // the head's columns of the sequence's row 0
  int64_t out_stride;
  float* scratch;  // AttentionScratchFloats(width), 64-byte aligned, this thread's own
};
inline constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
inline constexpr int64_t AttentionScratchFloats(int64_t width) {
  return kQueryBlock * (kKeyTile + RoundUp(width, kPanelCols) + 1 + kPanelCols) +
         (kQueryBlock + kKeyTile) * kDistanceTile +
         kQueryBlock * (RoundUp(width, 2) + kKeyTile) / 2;  // rounded
}

struct NormTask {
  const float* x;
  int64_t x_stride;
  const float* weight;
  const float* bias;  // LayerNorm only; may be null
  float epsilon;
  int64_t cols;
  int64_t width;  // RmsNorm: columns of a group
  float* y;
  int64_t y_stride;
};

// Kinds of arithmetic whose rate limits the products.
enum class PeakKind {
  kF32,   // multiply-add of f32
  kI16,   // 16 x 16 bit products, pairs summed in 32 bits
  kI8,    // 8 x 8 bit products, fours summed in 32 bits
  kBF16,  // bf16 products, pairs summed in f32
};
inline constexpr int kNumPeakKinds = 4;

// y = scale * one row of `count` values, stored as one of the kRows formats says.
using RowDecoder = void (*)(const std::byte* row, int64_t count, float scale, float* y);

// A row that is sent, and its checksum from the registers that hold it.
struct SentRow {
  const std::byte* row;
  const std::byte* next;  // as long, and fetched meanwhile
  int64_t count;
  float scale;
  float* y;      // scale * row
  uint32_t crc;  // CRC-32C of what goes before, then with y; without the last inversion
  bool finite;   // written: every value of y is
};
using RowSender = void (*)(SentRow& task);

// Attention over one kind of operands. G = 1 value for f32, 2 for bf16.
struct AttentionKernels {
  // Keys [16 * panel_begin, 16 * panel_end) of [length, W] into panels [W / G, rounded up][16][G],
  // zeros beyond the last key and W; `out` is panel 0.
  void (*pack_keys)(const float* keys, int64_t stride, int64_t length, int64_t width,
                    int64_t panel_begin, int64_t panel_end, std::byte* out);
  // The same keys' values [length, W] into column panels [length / G][16][G], zeros beyond W; `out`
  // is column panel 0, and the next one lies `length` rounded up to 16 rows further.
  void (*pack_values)(const float* values, int64_t stride, int64_t length, int64_t width,
                      int64_t panel_begin, int64_t panel_end, std::byte* out);
  void (*attention)(const AttentionTask& task);
};

struct KernelTable {
  // Products, by PanelFormat. kQ4Fours, kBF16Pairs and kRotatedBytes are null where their
  // instructions are missing.
  void (*linear[kNumPanelFormats])(const LinearTask& task);
  // i16 row of `count` values (a multiple of 32) with x ~ q * scale, |q| <= 32767.
  void (*quantise_row)(const float* x, int64_t count, int16_t* q, float* scale);
  // The sum of every block of 32 of such a row.
  void (*sum_blocks)(const int16_t* q, int64_t count, int32_t* sums);
  // The same to i8, |q| <= 127, block by block of 32; null without kQ4Fours.
  void (*quantise_blocks)(const float* x, int64_t count, int8_t* q, BlockScales scales);
  // The same of values that are rotated 128 at a time; null without kRotatedBytes.
  void (*quantise_rotated)(const float* x, int64_t count, int8_t* q, BlockScales scales);
  // Nearest even, subnormals to zero; null without kBF16Pairs. `count` values, then a zero if odd.
  void (*round_to_bf16)(const float* x, int64_t count, uint16_t* rounded);

  void (*layer_norm)(const NormTask& task, int64_t row_begin, int64_t row_end);
  void (*rms_norm)(const NormTask& task, int64_t row_begin, int64_t row_end);
  // y += x / rms(x) * weight, width = cols.
  void (*rms_norm_add)(const NormTask& task, int64_t row_begin, int64_t row_end);

  RowDecoder decode_row[kNumRowsFormats];  // by PanelFormat, from kRowsF32
  // The same formats. Null or, where the CPU lacks VPCLMULQDQ, not to be called: HasFoldedChecksum.
  RowSender send_row[kNumRowsFormats];

  // y = scale * x, or y += scale * x.
  void (*scale_row)(const float* x, float scale, bool accumulate, int64_t count, float* y);
  // y += x
  void (*add_row)(const float* x, int64_t count, float* y);
  // gate = activation(gate) * up
  void (*gated_row)(Epilogue activation, const float* up, int64_t count, float* gate);
  // One token: every head of `count` columns is rotated by the W/2 cosines and sines.
  void (*rope_row)(const float* cos_sin, int64_t head_width, int64_t count, float* x);
  // y = mean over `rows` rows, rows in ascending order.
  void (*mean_rows)(const float* x, int64_t x_stride, int64_t rows, int64_t count, float* y);

  AttentionKernels attention_f32;
  // Null without kBF16Pairs.
  AttentionKernels attention_bf16;

  // What the machine gives at most, by PeakKind: runs independent instructions of one kind `rounds`
  // times and returns the operations done, a multiply-add counted as two. Null: no such
  // instruction.
  int64_t (*peaks[kNumPeakKinds])(int64_t rounds);
  // Reads memory as fast as it comes; `count` is a multiple of 256. The result keeps the loads
  // alive.
  int32_t (*read_bytes)(const std::byte* bytes, int64_t count);
  // CRC-32C of `count` more bytes, without the first and last inversion; null: no such instruction.
  uint32_t (*crc32c)(uint32_t crc, const std::byte* bytes, int64_t count);
  // The same, as send_row is.
  uint32_t (*folded_crc32c)(uint32_t crc, const std::byte* bytes, int64_t count);
};

extern const KernelTable kScalarTable;
// x86-64 only.
extern const KernelTable kSsse3Table;
extern const KernelTable kAvx2Table;
extern const KernelTable kAvx2VnniTable;
extern const KernelTable kAvx512Table;
extern const KernelTable kAvx512VnniTable;
extern const KernelTable kAvx512Bf16Table;
// ARM64 only.
extern const KernelTable kNeonTable;
extern const KernelTable kNeonDotprodTable;
extern const KernelTable kNeonI8mmTable;

}  // namespace pergola::kernels::cpu
