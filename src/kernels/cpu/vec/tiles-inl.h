// Register tiles: the innermost loops of every product and of attention.
//
// Lanes are output columns. Each output element is one chain of multiply-adds with k ascending,
// started from 0 or from the partial sum in `c`: so neither the tile's shape nor the blocking over
// K changes a bit (docs/numerics.md, rules 1 to 3).
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace {

using pergola::kernels::cpu::kBlock;
using pergola::kernels::cpu::kPanelCols;

constexpr int kPanelVecs = static_cast<int>(kPanelCols) / kLanes;

// A stored weight that is widened to f32 on its way into a register.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
inline VecF LoadWeights(const float* source) { return Load(source); }
inline VecF LoadWeights(const F16* source) { return LoadF16(&source->bits); }
inline VecF LoadWeights(const BF16* source) { return LoadBF16(&source->bits); }

// Pointers into kRows rows at the same column. One for four rows, which are then one, two and three
// strides away: left to itself g++ 12 keeps a multiple of the stride for each row and spills them.
template <int kRows, class T>
struct RowPointers {
  static constexpr int kGroup = 4;
  const T* first[(kRows + kGroup - 1) / kGroup];
  int64_t stride;

  RowPointers(const T* rows, int64_t row_stride) : stride(row_stride) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; row += kGroup) {
      first[row / kGroup] = rows + row * stride;
      asm("" : "+r"(first[row / kGroup]));
    }
  }
  const T* row(int index) const { return first[index / kGroup] + index % kGroup * stride; }
  void Advance(int64_t columns) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; row += kGroup) first[row / kGroup] += columns;
  }
};

// Weights come from the second-level cache while rows stay in the first: fetched 16 k ahead.
constexpr int64_t kPrefetchDistance = 16 * kPanelCols;

// The first row tiles of a group of panels fetch the next group from memory, a panel each, while
// they multiply (RunRowTiles): else the first tile of every group waits for it.
constexpr int kSecondLevel = 2;  // the locality of __builtin_prefetch

// The same for a tile whose panels are made of blocks of so many bytes; a lone tile fetches them
// all.
template <int64_t kBytes, class Tile>
inline void PrefetchBlocks(const Tile& tile, const std::byte* block) {
  if constexpr (requires { tile.ahead; }) {
    block += tile.ahead;
    for (int64_t panel = 0; panel < tile.ahead_panels; ++panel, block += tile.panel_stride) {
#pragma GCC unroll 16
      for (int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(block + at, 0, kSecondLevel);
    }
  }
}

// Rows [0, R) of `a` times P panels, added to `c` or (first) written to it. Each kind of tile has
// kMaxRows, and one of these, which say how wide a tile of few rows is (WidePanels):
// kTemporaries: registers that it needs besides its sums and the shorter of a row's and a column's
// operands.
// kStreamRows: up to so many rows take one panel at a time.
template <class Value, class Weight>
struct TileOperands {
  const Value* a;
  int64_t a_stride;
  const Weight* b;       // of the first panel
  int64_t panel_stride;  // in Weights
  int64_t depth;         // number of k
  float* c;
  int64_t c_stride;
  bool first;
};

// Weights are blocks of 32 k as the panel stores them; `depth` is a multiple of 32.
template <class Value>
struct BlockOperands : TileOperands<Value, std::byte> {
  int64_t ahead = 0;  // from b, to panels that will be needed soon
  int64_t ahead_panels = 0;
};

// Row k of panel p: b + p * panel_stride + k * b_stride.
template <class Weight>
struct FloatTile : TileOperands<float, Weight> {
  static constexpr int kTemporaries = 1;
  static constexpr int kMaxRows = kMaxTileRows;
  int64_t b_stride;
  int64_t ahead = 0;  // from b, to a panel that will be needed soon
};

using F32Tile = FloatTile<float>;

template <int kRows, int kPanels, class Weight>
void RunTile(const FloatTile<Weight>& tile) {
  constexpr int kVecs = kPanels * kPanelVecs;
  VecF acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      acc[row][vec] = tile.first ? VecF{} : Load(tile.c + row * tile.c_stride + vec * kLanes);
    }
  }
  RowPointers<kRows, float> a(tile.a, tile.a_stride);
  const Weight* b = tile.b;
  const int64_t panel_stride = tile.panel_stride;
  for (int64_t k = tile.depth; k > 0; --k) {
    // Smaller tiles have no instruction to spare.
    if constexpr (kMaxTileRows >= 12) __builtin_prefetch(b + tile.ahead, 0, kSecondLevel);
    VecF weights[kVecs];
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      const Weight* source = b + vec / kPanelVecs * panel_stride + vec % kPanelVecs * kLanes;
      weights[vec] = LoadWeights(source);
      __builtin_prefetch(source + kPrefetchDistance);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const VecF activation = Set(*a.row(row));
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        acc[row][vec] = MulAdd(activation, weights[vec], acc[row][vec]);
        KeepInRegister(acc[row][vec]);
      }
    }
    a.Advance(1);
    b += tile.b_stride;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      Store(tile.c + row * tile.c_stride + vec * kLanes, acc[row][vec]);
    }
  }
}

// With so many rows AVX-512 keeps the sums of a block and those over all blocks in registers.
constexpr int kBlockTileRows = kMaxTileRows < 6 ? kMaxTileRows : 6;

// The sums of a tile over its blocks: in registers where they fit beside those of one block, else
// where they end up.
template <int kRows, int kVecs>
class BlockSums {
 public:
  // Besides them a vector of weights each, and four for what else there is.
  static constexpr bool kInRegisters = 2 * kRows * kVecs + kVecs + 4 <= kVectorRegisters;

  BlockSums(bool first, float* c, int64_t c_stride) : c_(c), c_stride_(c_stride) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        const VecF sum = first ? VecF{} : Load(At(row, vec));
        if constexpr (kInRegisters) {
          sums_[row][vec] = sum;
          KeepInRegister(sums_[row][vec]);
        } else if (first) {
          Store(At(row, vec), sum);
        }
      }
    }
  }

  // sum += value * scale
  void Add(int row, int vec, VecF value, VecF scale) {
    if constexpr (kInRegisters) {
      sums_[row][vec] = MulAdd(value, scale, sums_[row][vec]);
      KeepInRegister(sums_[row][vec]);
    } else {
      Store(At(row, vec), MulAdd(value, scale, Load(At(row, vec))));
    }
  }

  void Finish() {
    if constexpr (!kInRegisters) return;
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) Store(At(row, vec), sums_[row][vec]);
    }
  }

 private:
  float* At(int row, int vec) const { return c_ + row * c_stride_ + vec * kLanes; }

  VecF sums_[kInRegisters ? kRows : 1][kVecs];
  float* c_;
  int64_t c_stride_;
};

// The same for blocks of 32 k of 16-bit values: within a block an exact integer sum, then one
// multiply-add of it with the block's scale per column, blocks ascending. |a| <= 32767, |b| <= 128:
// a block's sum is below 2^27.
struct I16Tile : TileOperands<int16_t, int16_t> {  // b [panel][block][16 pairs][16 columns][2]
  static constexpr int kStreamRows = 1;
  static constexpr int kMaxRows = kBlockTileRows;
  const float* scales;  // [panel][block][16]
};

// acc += a row pair times the weights of two k, for every row and vector.
template <int kRows, int kVecs>
inline void AddPairs(const RowPointers<kRows, int16_t>& a, const VecI (&weights)[kVecs],
                     VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    int32_t two;
    __builtin_memcpy(&two, a.row(row), sizeof(two));
    const VecI activation = SetInt(two);
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      AddPairDot(activation, weights[vec], acc[row][vec]);
    }
  }
}

template <int kRows, int kVecs>
inline void ClearSums(VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) acc[row][vec] = Zero();
  }
}

// sums += acc * scale for one vector of columns of every row.
template <int kRows, int kVecs>
inline void AddScaled(const VecI (&acc)[kRows][kVecs], int vec, VecF scale,
                      BlockSums<kRows, kVecs>& sums) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) sums.Add(row, vec, ToFloat(acc[row][vec]), scale);
}

template <int kRows, int kPanels>
void RunTile(const I16Tile& tile) {
  constexpr int kVecs = kPanels * kPanelVecs;
  const int64_t blocks = tile.depth / kBlock;
  BlockSums<kRows, kVecs> sums(tile.first, tile.c, tile.c_stride);
  RowPointers<kRows, int16_t> a(tile.a, tile.a_stride);
  const int16_t* b = tile.b;
  for (int64_t block = 0; block < blocks; ++block) {
    VecI acc[kRows][kVecs];
    ClearSums(acc);
    for (int64_t pair = 0; pair < kBlock / 2; ++pair) {
      VecI weights[kVecs];
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        weights[vec] =
            LoadInt(b + vec / kPanelVecs * tile.panel_stride + vec % kPanelVecs * kLanes * 2);
      }
      AddPairs<kRows, kVecs>(a, weights, acc);
      a.Advance(2);
      b += kPanelCols * 2;
    }
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      const VecF scale = Load(tile.scales + vec / kPanelVecs * (blocks * kPanelCols) +
                              block * kPanelCols + vec % kPanelVecs * kLanes);
      AddScaled(acc, vec, scale, sums);
    }
  }
  sums.Finish();
}

// The same sums from blocks as the panel stores them (PanelFormat), widened in registers.
template <class Block>
struct BlockTile : BlockOperands<int16_t> {
  static constexpr int kStreamRows = 1;
  static constexpr int kMaxRows = kBlockTileRows;
};

typedef int16_t HalfLanes __attribute__((vector_size(4 * kLanes)));

// Pairs of bytes, one after the other.
struct BytePairs {
  static constexpr int kPairs = 1;                              // of a column, side by side
  static constexpr int kBytes = 2;                              // that they take
  static constexpr int64_t kWeightBytes = kBlock * kPanelCols;  // of a panel's block
  template <int>
  static VecI Load(const std::byte* source) {
    return LoadSignedBytes(source);
  }
};

// Words of four pairs of nibbles (PanelFormat::kQ4Blocks).
struct NibblePairs {
  static constexpr int kPairs = 4;
  static constexpr int kBytes = 4;
  static constexpr int64_t kWeightBytes = kBlock * kPanelCols / 2;
};
struct SignedNibblePairs : NibblePairs {
  template <int kPair>
  static VecI Load(const std::byte* source) {
    const HalfLanes halves = reinterpret_cast<HalfLanes>(LoadInt(source));
    return reinterpret_cast<VecI>((halves << (12 - 4 * kPair)) >> 12);
  }
};
struct UnsignedNibblePairs : NibblePairs {
  template <int kPair>
  static VecI Load(const std::byte* source) {
    return (LoadInt(source) >> 4 * kPair) & 0x000f000f;
  }
};

using Q8Block = BytePairs;
using Q4Block = SignedNibblePairs;

// Pair kPair of those side by side at `b`, of every column, times that of every row; then those
// after it.
template <class Pairs, int kPair, int kRows, int kVecs>
inline void AddSideBySide(const std::byte* b, int64_t panel_stride, RowPointers<kRows, int16_t>& a,
                          VecI (&acc)[kRows][kVecs]) {
  // Else words are kept in registers that sums need.
  asm("" : "+r"(b));
  VecI weights[kVecs];
#pragma GCC unroll 16
  for (int vec = 0; vec < kVecs; ++vec) {
    weights[vec] = Pairs::template Load<kPair>(b + vec / kPanelVecs * panel_stride +
                                               vec % kPanelVecs * kLanes * Pairs::kBytes);
  }
  AddPairs<kRows, kVecs>(a, weights, acc);
  a.Advance(2);
  if constexpr (kPair + 1 < Pairs::kPairs) {
    AddSideBySide<Pairs, kPair + 1, kRows, kVecs>(b, panel_stride, a, acc);
  }
}

// The products of so many pairs of k of a block.
template <class Pairs, int kRows, int kVecs>
inline void AddBlockPairs(const std::byte* b, int64_t pairs, int64_t panel_stride,
                          RowPointers<kRows, int16_t>& a, VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 1
  for (; pairs > 0; pairs -= Pairs::kPairs, b += kPanelCols * Pairs::kBytes) {
    AddSideBySide<Pairs, 0, kRows, kVecs>(b, panel_stride, a, acc);
  }
}

template <int kRows, int kPanels, class Block>
void RunTile(const BlockTile<Block>& tile) {
  constexpr int kVecs = kPanels * kPanelVecs;
  constexpr int64_t kBytes = Block::kWeightBytes + kPanelCols * 2;
  BlockSums<kRows, kVecs> sums(tile.first, tile.c, tile.c_stride);
  RowPointers<kRows, int16_t> a(tile.a, tile.a_stride);
  for (int64_t block = 0; block < tile.depth / kBlock; ++block) {
    VecI acc[kRows][kVecs];
    ClearSums(acc);
    const std::byte* b = tile.b + block * kBytes;
    PrefetchBlocks<kBytes>(tile, b);
    AddBlockPairs<Block>(b, kBlock / 2, tile.panel_stride, a, acc);
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      const std::byte* scales = b + vec / kPanelVecs * tile.panel_stride + Block::kWeightBytes;
      const VecF scale =
          LoadF16(reinterpret_cast<const uint16_t*>(scales) + vec % kPanelVecs * kLanes);
      AddScaled(acc, vec, scale, sums);
    }
  }
  sums.Finish();
}

// Bytes times bytes: within a block an exact integer sum, then one multiply-add of it, times the
// row's scale of the block, with the block's scale per column, blocks ascending. A Block says how
// the panel stores its weights, unsigned.
template <class Block>
struct BytesTile : Block::Operands {
  static constexpr int kStreamRows = 3;
  static constexpr int kMaxRows = kBlockTileRows;
  const float* a_scales;  // [row][block], a_blocks apart
  const int32_t* a_starts;
  int64_t a_blocks;
};

// What the sum of a block begins at, for every lane: `start` itself, or half of it in either half
// of a lane, where two 16-bit sums of 16 products each are added in the end. These stay below 2^15:
// of weights w in 0..15, values x in +-127 and a start of -4 for each of 32 values, a product of
// its own adds at most 11 * 127 to a half, and -4x of one still missing or of the other half 4 *
// 127.
inline int32_t ByteDotStart(int32_t start) {
  if constexpr (!kHalvedByteDots) return start;
  const int32_t half = start / 2;
  return (half & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(half) << 16);
}

// Four weights of every column times four values of every row, `offset` columns from `a`.
template <int kRows, int kVecs>
inline void AddFourOfRows(const RowPointers<kRows, int8_t>& a, int64_t offset,
                          const VecI (&weights)[kVecs], VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    int32_t bytes;
    __builtin_memcpy(&bytes, a.row(row) + offset, sizeof(bytes));
    const VecI activation = SetInt(bytes);
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) AddByteDot(weights[vec], activation, acc[row][vec]);
  }
}

// Nibbles + 8, low ones of four k and then high ones of 16 further (PanelFormat::kQ4Fours).
struct NibbleFours {
  using Operands = BlockOperands<int8_t>;
  static constexpr int64_t kDepth = kBlock;
  static constexpr int64_t kWeightBytes = kDepth * kPanelCols / 2;
  static constexpr int64_t kBytes = kWeightBytes + kPanelCols * 2;

  static VecF LoadScale(const std::byte* block, int lane) {
    return LoadF16(reinterpret_cast<const uint16_t*>(block + kWeightBytes) + lane);
  }

  template <int kPart, int kRows, int kVecs>
  static void AddPart(const RowPointers<kRows, int8_t>& a, const std::byte* b, int64_t panel_stride,
                      VecI (&acc)[kRows][kVecs]) {
    VecI weights[kVecs];
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      const VecI both =
          LoadInt(b + vec / kPanelVecs * panel_stride + vec % kPanelVecs * kLanes * 4);
      weights[vec] = (kPart == 0 ? both : both >> 4) & 0x0f0f0f0f;
      KeepInRegister(weights[vec]);
    }
    AddFourOfRows<kRows, kVecs>(a, kPart * kDepth / 2, weights, acc);
  }

  template <int kRows, int kVecs>
  static void AddDots(const std::byte* b, int64_t panel_stride, RowPointers<kRows, int8_t>& a,
                      VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 1
    for (int64_t four = 0; four < kDepth / 8; ++four) {
      AddPart<0, kRows, kVecs>(a, b, panel_stride, acc);
      AddPart<1, kRows, kVecs>(a, b, panel_stride, acc);
      a.Advance(4);
      b += kPanelCols * 4;
    }
    a.Advance(kDepth / 2);
  }
};

// Any unsigned bytes, four k of a column after the other, and f32 scales
// (PanelFormat::kRotatedBytes).
struct ByteFours {
  using Operands = BlockOperands<int8_t>;
  static constexpr int64_t kDepth = kBlock;
  static constexpr int64_t kWeightBytes = kDepth * kPanelCols;
  static constexpr int64_t kBytes = kWeightBytes + kPanelCols * 4;

  static VecF LoadScale(const std::byte* block, int lane) {
    return Load(reinterpret_cast<const float*>(block + kWeightBytes) + lane);
  }

  template <int kRows, int kVecs>
  static void AddDots(const std::byte* b, int64_t panel_stride, RowPointers<kRows, int8_t>& a,
                      VecI (&acc)[kRows][kVecs]) {
#pragma GCC unroll 1
    for (int64_t four = 0; four < kDepth / 4; ++four) {
      VecI weights[kVecs];
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        weights[vec] = LoadInt(b + vec / kPanelVecs * panel_stride + vec % kPanelVecs * kLanes * 4);
        KeepInRegister(weights[vec]);
      }
      AddFourOfRows<kRows, kVecs>(a, 0, weights, acc);
      a.Advance(4);
      b += kPanelCols * 4;
    }
  }
};

// The same, unpacked from NibbleFours for many row tiles.
struct UnpackedFours : ByteFours {
  using Operands = TileOperands<int8_t, std::byte>;
};

template <int kRows, int kPanels, class Block>
void RunTile(const BytesTile<Block>& tile) {
  constexpr int kVecs = kPanels * kPanelVecs;
  BlockSums<kRows, kVecs> sums(tile.first, tile.c, tile.c_stride);
  RowPointers<kRows, int8_t> a(tile.a, tile.a_stride);
  for (int64_t block = 0; block < tile.depth / Block::kDepth; ++block) {
    const std::byte* b = tile.b + block * Block::kBytes;
    PrefetchBlocks<Block::kBytes>(tile, b);
    const int32_t* starts = tile.a_starts + block;
    const float* a_scales = tile.a_scales + block;
    VecI acc[kRows][kVecs];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        acc[row][vec] = SetInt(starts[row * tile.a_blocks]);
        KeepInRegister(acc[row][vec]);
      }
    }
    Block::AddDots(b, tile.panel_stride, a, acc);
    VecF scales[kVecs];
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      scales[vec] =
          Block::LoadScale(b + vec / kPanelVecs * tile.panel_stride, vec % kPanelVecs * kLanes);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const VecF a_scale = Set(a_scales[row * tile.a_blocks]);
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) {
        const VecF sum = ToFloat(EndByteDots(acc[row][vec]));
        sums.Add(row, vec, sum * a_scale, scales[vec]);
      }
    }
  }
  sums.Finish();
}

// bf16 pairs: one chain per element, pairs ascending, the second of a pair added first.
struct PairsTile : TileOperands<uint16_t, uint16_t> {  // b [panel][pair][16 columns][2]
  static constexpr int kTemporaries = 1;
  static constexpr int kMaxRows = kMaxTileRows;
};

template <int kRows, int kPanels>
void RunTile(const PairsTile& tile) {
  constexpr int kVecs = kPanels * kPanelVecs;
  VecF acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      acc[row][vec] = tile.first ? VecF{} : Load(tile.c + row * tile.c_stride + vec * kLanes);
      KeepInRegister(acc[row][vec]);
    }
  }
  RowPointers<kRows, uint16_t> a(tile.a, tile.a_stride);
  const uint16_t* b = tile.b;
  for (int64_t pair = tile.depth / 2; pair > 0; --pair) {
    VecI weights[kVecs];
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      weights[vec] =
          LoadInt(b + vec / kPanelVecs * tile.panel_stride + vec % kPanelVecs * kLanes * 2);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      int32_t two;
      __builtin_memcpy(&two, a.row(row), sizeof(two));
      const VecI activation = SetInt(two);
#pragma GCC unroll 16
      for (int vec = 0; vec < kVecs; ++vec) AddBF16Dot(activation, weights[vec], acc[row][vec]);
    }
    a.Advance(2);
    b += kPanelCols * 2;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int vec = 0; vec < kVecs; ++vec) {
      Store(tile.c + row * tile.c_stride + vec * kLanes, acc[row][vec]);
    }
  }
}

// groups-inl.h
template <class Block>
struct GroupTile;
template <int kRows, int kPanels, class Block>
void RunTile(const GroupTile<Block>& tile);

// How many panels a lone tile of so many rows takes. One chain an element over all of K: as many as
// stay in registers, for few rows need several panels to hide the latency of their chains. Chains
// that end with a block overlap in the core's window, whatever the tile's width. Few rows of them
// wait for memory: one panel, so that the weights are one stream, which the prefetcher follows (1.6
// times the speed of eight side by side on a Zen 5); bytes multiply faster and wait up to three
// rows. More rows share the loads of kTilePanels, as tiles of many do.
template <class Tile>
constexpr int WidePanels(int rows) {
  int panels = kTilePanels;
  if constexpr (requires { Tile::kStreamRows; }) {
    if (rows <= Tile::kStreamRows) panels = 1;
  } else {
    while (panels < pergola::kernels::cpu::kMaxTaskPanels) {
      const int vecs = 2 * panels * kPanelVecs;
      if (rows * vecs + (rows < vecs ? rows : vecs) + Tile::kTemporaries > kVectorRegisters) break;
      panels *= 2;
    }
  }
  return panels;
}

template <class Tile>
using TileFunction = void (*)(const Tile&);

// `panels` is 1, kTilePanels or WidePanels<Tile>(rows).
template <class Tile, int kRows = Tile::kMaxRows>
TileFunction<Tile> FindTile(int64_t rows, int64_t panels) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return FindTile<Tile, kRows - 1>(rows, panels);
  }
  if (panels == WidePanels<Tile>(kRows)) return RunTile<kRows, WidePanels<Tile>(kRows)>;
  if (panels == kTilePanels) return RunTile<kRows, kTilePanels>;
  return RunTile<kRows, 1>;
}

// Splits rows into tiles of nearly equal height: 7 rows are 4 + 3, not 6 + 1.
struct RowTiles {
  int64_t rows;
  int64_t count;

  explicit RowTiles(int64_t num_rows, int64_t max_rows = kMaxTileRows)
      : rows(num_rows), count((num_rows + max_rows - 1) / max_rows) {}
  int64_t begin(int64_t tile) const { return tile * rows / count; }
  int64_t size(int64_t tile) const { return begin(tile + 1) - begin(tile); }
};

// Every row tile of one group of panels; `first_tile` describes row 0.
template <class Tile>
inline void RunRowTiles(const RowTiles& tiles, int64_t panels, const Tile& first_tile) {
  Tile tile = first_tile;
  for (int64_t i = 0; i < tiles.count; ++i) {
    tile.a = first_tile.a + tiles.begin(i) * tile.a_stride;
    tile.c = first_tile.c + tiles.begin(i) * tile.c_stride;
    if constexpr (requires { tile.a_scales; }) {
      tile.a_scales = first_tile.a_scales + tiles.begin(i) * tile.a_blocks;
    }
    if constexpr (requires { tile.a_starts; }) {
      tile.a_starts = first_tile.a_starts + tiles.begin(i) * tile.a_blocks;
    }
    if constexpr (requires { tile.ahead; }) {
      tile.ahead = i < panels ? (panels + i) * tile.panel_stride : 0;
    }
    if constexpr (requires { tile.ahead_panels; }) {
      tile.ahead_panels = tiles.count == 1 ? panels : i < panels ? 1 : 0;
    }
    FindTile<Tile>(tiles.size(i), panels)(tile);
  }
}

}  // namespace
