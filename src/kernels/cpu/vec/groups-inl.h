// Blocks of 32 k whose groups of 16 have steps of their own, or that have an offset: the integers
// of Q3_K, Q6_K, Q4_1, Q4_K, Q5_1 and Q5_K (PanelFormat::kSixteens, kOffsetBytes, kOffsetNibbles)
// times rows of 16-bit values.
//
// Within a group an exact integer sum, then one multiply-add of it with the group's step per
// column, groups ascending. An offset's share of a block is that offset times the sum of the row's
// 32 values, also exact and below 2^20: one more multiply-add, after the block's.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace {

template <class Block>
struct GroupTile : BlockOperands<int16_t> {
  static constexpr int kStreamRows = 1;
  static constexpr int kMaxRows = kBlockTileRows;
  const int32_t* a_starts;  // sums of a block's values, [row][block], a_blocks apart
  int64_t a_blocks;
};

// Two f32 per column end a block: steps, then the steps of its second half or offsets.
template <class PairsOfBlock, bool kOffset>
struct GroupBlock {
  using Pairs = PairsOfBlock;
  static constexpr bool kHasOffset = kOffset;
  static constexpr int64_t kWeightBytes = Pairs::kWeightBytes;
  static constexpr int64_t kBytes = kWeightBytes + 2 * kPanelCols * 4;
};

using Sixteens = GroupBlock<BytePairs, false>;
using OffsetBytes = GroupBlock<BytePairs, true>;
using OffsetNibbles = GroupBlock<UnsignedNibblePairs, true>;

template <int kRows, int kPanels, class Block>
void RunTile(const GroupTile<Block>& tile) {
  constexpr int kVecs = kPanels * kPanelVecs;
  BlockSums<kRows, kVecs> sums(tile.first, tile.c, tile.c_stride);
  RowPointers<kRows, int16_t> a(tile.a, tile.a_stride);
  for (int64_t block = 0; block < tile.depth / kBlock; ++block) {
    const std::byte* b = tile.b + block * Block::kBytes;
    // With an offset registers run short in tiles of several rows.
    if constexpr (!Block::kHasOffset) PrefetchBlocks<Block::kBytes>(tile, b);
    // Of every vector of columns: the first f32 at the block's end, or the second.
    const auto scale = [&](int vec, int which) {
      return Load(reinterpret_cast<const float*>(b + vec / kPanelVecs * tile.panel_stride +
                                                 Block::kWeightBytes) +
                  which * kPanelCols + vec % kPanelVecs * kLanes);
    };
    VecI acc[kRows][kVecs];
    ClearSums(acc);
    using Pairs = typename Block::Pairs;
    constexpr int64_t kHalf = kBlock / 4;  // in pairs
    if constexpr (Block::kHasOffset) {
      AddBlockPairs<Pairs>(b, 2 * kHalf, tile.panel_stride, a, acc);
    } else {
      AddBlockPairs<Pairs>(b, kHalf, tile.panel_stride, a, acc);
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) AddScaled(acc, vec, scale(vec, 0), sums);
      ClearSums(acc);
      AddBlockPairs<Pairs>(b + Block::kWeightBytes / 2, kHalf, tile.panel_stride, a, acc);
    }
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      AddScaled(acc, vec, scale(vec, Block::kHasOffset ? 0 : 1), sums);
    }
    if constexpr (Block::kHasOffset) {
      const int32_t* totals = tile.a_starts + block;
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const VecF total = Set(static_cast<float>(totals[row * tile.a_blocks]));
#pragma GCC unroll 16
        for (int vec = 0; vec < kVecs; ++vec) sums.Add(row, vec, total, scale(vec, 1));
      }
    }
  }
  sums.Finish();
}

template <class Block>
struct GroupPanels {
  using Tile = GroupTile<Block>;
  static int64_t KStep(bool single_tile, int64_t, int64_t inputs) {
    return DirectKStep(single_tile, inputs);
  }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t, int64_t k_begin, Tile& tile) {
    PlaceOperands(task, panel, k_begin, Block::kBytes, tile);
    const int64_t first_block = k_begin / kBlock;
    tile.a_blocks = task.inputs / kBlock;
    tile.a_starts = task.block_start + task.row_begin * tile.a_blocks + first_block;
  }
};

// starts[b] = the sum of block b of a row of 16-bit values.
void SumBlocks(const int16_t* q, int64_t count, int32_t* sums) {
  for (int64_t block = 0; block < count / kBlock; ++block, q += kBlock) {
    VecI total = Zero();
    for (int64_t i = 0; i < kBlock; i += 2 * kLanes) {
      AddPairDot(SetInt(0x00010001), LoadInt(q + i), total);
    }
    sums[block] = ReduceSumInt(total);
  }
}

}  // namespace
