// Blocks of y = epilogue(x . w^T + bias) for every panel format.
//
// K blocks outermost, then groups of panels, then row tiles: a group's weights of one K block stay
// in the first-level cache while all row tiles pass over them. Formats other than f32 are widened
// into scratch once per K block, so their inner loops are those of f32, of 16-bit integers or of
// bytes.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace {

using pergola::kernels::cpu::LinearTask;

// K of one pass over panels that are used where they lie. A single row tile reads each weight once:
// no reason to block K.
inline int64_t DirectKStep(bool single_tile, int64_t inputs) { return single_tile ? inputs : 512; }

// The operands of a tile that begins at `k_begin` of rows of Value and of blocks of 32 k.
template <class Value>
inline void PlaceOperands(const LinearTask& task, int64_t panel, int64_t k_begin,
                          int64_t block_bytes, BlockOperands<Value>& tile) {
  tile.b = task.panels + panel * task.panel_bytes + k_begin / kBlock * block_bytes;
  tile.panel_stride = task.panel_bytes;
  tile.a = static_cast<const Value*>(task.a) + task.row_begin * task.a_stride + k_begin;
}

// A panel that is used where it lies.
template <class Weight>
struct DirectPanels {
  using Tile = FloatTile<Weight>;
  static int64_t KStep(bool single_tile, int64_t, int64_t inputs) {
    return DirectKStep(single_tile, inputs);
  }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t, int64_t k_begin, Tile& tile) {
    tile.b = reinterpret_cast<const Weight*>(task.panels + panel * task.panel_bytes) +
             k_begin * kPanelCols;
    tile.b_stride = kPanelCols;
    tile.panel_stride = task.panel_bytes / static_cast<int64_t>(sizeof(Weight));
    tile.a = static_cast<const float*>(task.a) + task.row_begin * task.a_stride + k_begin;
  }
};

// A panel of 16-bit weights, widened to f32 once for many row tiles.
template <class Weight>
struct WidenedPanels {
  using Tile = F32Tile;
  static int64_t KStep(bool, int64_t panels, int64_t) { return 256 / panels; }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t panels, int64_t k_begin,
                      Tile& tile) {
    float* widened = reinterpret_cast<float*>(task.scratch + pergola::kernels::cpu::kPartialBytes);
    const int64_t values = tile.depth * kPanelCols;
    for (int64_t i = 0; i < panels; ++i) {
      const Weight* source =
          reinterpret_cast<const Weight*>(task.panels + (panel + i) * task.panel_bytes) +
          k_begin * kPanelCols;
      float* target = widened + i * values;
      for (int64_t at = 0; at < values; at += kLanes) Store(target + at, LoadWeights(source + at));
    }
    tile.b = widened;
    tile.b_stride = kPanelCols;
    tile.panel_stride = values;
    tile.a = static_cast<const float*>(task.a) + task.row_begin * task.a_stride + k_begin;
  }
};

typedef int8_t Bytes __attribute__((vector_size(16)));
typedef int8_t BytesUnaligned __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t Words __attribute__((vector_size(32)));
typedef int16_t WordsUnaligned __attribute__((vector_size(32), aligned(2), may_alias));

inline void StoreWords(int16_t* target, Bytes bytes) {
  *reinterpret_cast<WordsUnaligned*>(target) = __builtin_convertvector(bytes, Words);
}

constexpr int64_t kBlockValues = kBlock * kPanelCols;

inline void WidenBlock(Q8Block, const std::byte* source, int16_t* target) {
  for (int64_t at = 0; at < kBlockValues; at += 16) {
    StoreWords(target + at, *reinterpret_cast<const BytesUnaligned*>(source + at));
  }
}

template <int kPair>
inline void WidenNibblePairs(const std::byte* source, int16_t* target) {
  for (int64_t col = 0; col < kPanelCols; col += kLanes) {
    const VecI pairs = Q4Block::Load<kPair>(source + col * Q4Block::kBytes);
    __builtin_memcpy(target + (kPair * kPanelCols + col) * 2, &pairs, sizeof(pairs));
  }
}

inline void WidenBlock(Q4Block, const std::byte* source, int16_t* target) {
  for (int64_t k = 0; k < kBlock; k += 8, source += kPanelCols * 4, target += kPanelCols * 8) {
    WidenNibblePairs<0>(source, target);
    WidenNibblePairs<1>(source, target);
    WidenNibblePairs<2>(source, target);
    WidenNibblePairs<3>(source, target);
  }
}

// Blocks that are used where they lie.
template <class Block>
struct DirectBlocks {
  using Tile = BlockTile<Block>;
  static int64_t KStep(bool single_tile, int64_t, int64_t inputs) {
    return DirectKStep(single_tile, inputs);
  }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t, int64_t k_begin, Tile& tile) {
    PlaceOperands(task, panel, k_begin, Block::kWeightBytes + kPanelCols * 2, tile);
  }
};

// Blocks that are widened to 16 bits once for many row tiles.
template <class Block>
struct WidenedBlocks {
  using Tile = I16Tile;
  static int64_t KStep(bool, int64_t panels, int64_t) { return 512 / panels; }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t panels, int64_t k_begin,
                      Tile& tile) {
    constexpr int64_t kBytes = Block::kWeightBytes + kPanelCols * 2;
    std::byte* scratch = task.scratch + pergola::kernels::cpu::kPartialBytes;
    int16_t* widened = reinterpret_cast<int16_t*>(scratch);
    float* scales = reinterpret_cast<float*>(scratch + pergola::kernels::cpu::kWidenedBytes);
    const int64_t blocks = tile.depth / kBlock;
    for (int64_t i = 0; i < panels; ++i) {
      const std::byte* source =
          task.panels + (panel + i) * task.panel_bytes + k_begin / kBlock * kBytes;
      for (int64_t block = 0; block < blocks; ++block, source += kBytes) {
        const int64_t at = i * blocks + block;
        WidenBlock(Block(), source, widened + at * kBlockValues);
        const uint16_t* halves = reinterpret_cast<const uint16_t*>(source + Block::kWeightBytes);
        for (int64_t col = 0; col < kPanelCols; col += kLanes) {
          Store(scales + at * kPanelCols + col, LoadF16(halves + col));
        }
      }
    }
    tile.b = widened;
    tile.panel_stride = blocks * kBlockValues;
    tile.scales = scales;
    tile.a = static_cast<const int16_t*>(task.a) + task.row_begin * task.a_stride + k_begin;
  }
};

// The rows of bytes, from k_begin on, with what is known of their blocks.
template <class Tile>
inline void PlaceRows(const LinearTask& task, int64_t k_begin, Tile& tile) {
  const int64_t first_block = k_begin / kBlock;
  tile.a = static_cast<const int8_t*>(task.a) + task.row_begin * task.a_stride + k_begin;
  tile.a_blocks = task.inputs / kBlock;
  tile.a_scales = task.block_scale + task.row_begin * tile.a_blocks + first_block;
  tile.a_starts = task.block_start + task.row_begin * tile.a_blocks + first_block;
}

// Cheap to unpack in registers, and few bytes a weight pass from the second-level cache.
template <class Block>
struct BytePanels {
  using Tile = BytesTile<Block>;
  static int64_t KStep(bool, int64_t, int64_t inputs) { return inputs; }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t, int64_t k_begin, Tile& tile) {
    tile.b = task.panels + panel * task.panel_bytes + k_begin / kBlock * Block::kBytes;
    tile.panel_stride = task.panel_bytes;
    PlaceRows(task, k_begin, tile);
  }
};

// Nibbles that are unpacked once for many row tiles.
struct UnpackedPanels {
  using Tile = BytesTile<UnpackedFours>;
  static int64_t KStep(bool, int64_t panels, int64_t) {
    constexpr int64_t kBlocks =
        static_cast<int64_t>(pergola::kernels::cpu::kWidenedBytes) / UnpackedFours::kBytes;
    return kBlocks / panels * kBlock;
  }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t panels, int64_t k_begin,
                      Tile& tile) {
    std::byte* unpacked = task.scratch + pergola::kernels::cpu::kPartialBytes;
    tile.b = unpacked;
    tile.panel_stride = tile.depth / kBlock * UnpackedFours::kBytes;
    for (int64_t i = 0; i < panels; ++i) {
      const std::byte* source =
          task.panels + (panel + i) * task.panel_bytes + k_begin / kBlock * NibbleFours::kBytes;
      for (int64_t k = 0; k < tile.depth; k += kBlock) {
        UnpackBlock(source, unpacked);
        source += NibbleFours::kBytes;
        unpacked += UnpackedFours::kBytes;
      }
    }
    PlaceRows(task, k_begin, tile);
  }

 private:
  static void UnpackBlock(const std::byte* source, std::byte* target) {
    for (int64_t at = 0; at < NibbleFours::kWeightBytes; at += kLanes * 4) {
      const VecI both = LoadInt(source + at);
      const VecI low = both & 0x0f0f0f0f, high = (both >> 4) & 0x0f0f0f0f;
      __builtin_memcpy(target + at, &low, sizeof(low));
      __builtin_memcpy(target + NibbleFours::kWeightBytes + at, &high, sizeof(high));
    }
    float* scales = reinterpret_cast<float*>(target + UnpackedFours::kWeightBytes);
    for (int col = 0; col < kPanelCols; col += kLanes) {
      Store(scales + col, NibbleFours::LoadScale(source, col));
    }
  }
};

struct PairsPanels {
  using Tile = PairsTile;
  static int64_t KStep(bool single_tile, int64_t, int64_t inputs) {
    return DirectKStep(single_tile, inputs);
  }
  static void Prepare(const LinearTask& task, int64_t panel, int64_t, int64_t k_begin, Tile& tile) {
    tile.b = reinterpret_cast<const uint16_t*>(task.panels + panel * task.panel_bytes) +
             k_begin * kPanelCols;
    tile.panel_stride = task.panel_bytes / 2;
    tile.a = static_cast<const uint16_t*>(task.a) + task.row_begin * task.a_stride + k_begin;
    tile.depth += tile.depth % 2;
  }
};

// Sums of some columns of every row of the task to y: s, times the row's scale, plus bias,
// activation, plus y, each rounded on its own.
template <Epilogue kEpilogue>
void FinishColumns(const LinearTask& task, const float* sums, int64_t stride, int64_t col_begin,
                   int64_t col_end) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row, sums += stride) {
    const VecF scale = Set(task.row_scale == nullptr ? 1.0f : task.row_scale[row]);
    float* y = task.y + row * task.y_stride;
    for (int64_t col = col_begin; col < col_end; col += kLanes) {
      const int64_t count = col_end - col;
      VecF sum = Load(sums + (col - col_begin)) * scale;
      if (task.bias != nullptr) sum += LoadUpTo(task.bias + col, count);
      sum = Activate<kEpilogue>(sum);
      if constexpr (kEpilogue == Epilogue::kAdd) sum += LoadUpTo(y + col, count);
      StoreUpTo(y + col, sum, count);
    }
  }
}

void Finish(const LinearTask& task, const float* sums, int64_t stride, int64_t panel,
            int64_t panels) {
  const int64_t begin = panel * kPanelCols;
  const int64_t end =
      (panel + panels) * kPanelCols < task.outputs ? (panel + panels) * kPanelCols : task.outputs;
  switch (task.epilogue) {
    case Epilogue::kNone:
      return FinishColumns<Epilogue::kNone>(task, sums, stride, begin, end);
    case Epilogue::kGeluErf:
      return FinishColumns<Epilogue::kGeluErf>(task, sums, stride, begin, end);
    case Epilogue::kGeluTanh:
      return FinishColumns<Epilogue::kGeluTanh>(task, sums, stride, begin, end);
    case Epilogue::kSilu:
      return FinishColumns<Epilogue::kSilu>(task, sums, stride, begin, end);
    case Epilogue::kRelu:
      return FinishColumns<Epilogue::kRelu>(task, sums, stride, begin, end);
    case Epilogue::kTanh:
      return FinishColumns<Epilogue::kTanh>(task, sums, stride, begin, end);
    case Epilogue::kAdd:
      return FinishColumns<Epilogue::kAdd>(task, sums, stride, begin, end);
  }
}

template <class Format>
void LinearBlock(const LinearTask& task) {
  const RowTiles tiles(task.row_end - task.row_begin, Format::Tile::kMaxRows);
  const int64_t group = tiles.count == 1
                            ? WidePanels<typename Format::Tile>(static_cast<int>(tiles.rows))
                            : kTilePanels;
  const int64_t k_step = Format::KStep(tiles.count == 1, group, task.inputs);
  float* partial = reinterpret_cast<float*>(task.scratch);
  typename Format::Tile tile;
  tile.a_stride = task.a_stride;
  tile.c_stride = (task.panel_end - task.panel_begin) * kPanelCols;
  for (int64_t k_begin = 0; k_begin < task.inputs; k_begin += k_step) {
    const bool last = k_begin + k_step >= task.inputs;
    tile.depth = last ? task.inputs - k_begin : k_step;
    tile.first = k_begin == 0;
    int64_t panels = 0;
    for (int64_t panel = task.panel_begin; panel < task.panel_end; panel += panels) {
      panels = task.panel_end - panel >= group ? group : 1;
      Format::Prepare(task, panel, panels, k_begin, tile);
      tile.c = partial + (panel - task.panel_begin) * kPanelCols;
      RunRowTiles(tiles, panels, tile);
      if (last) Finish(task, tile.c, tile.c_stride, panel, panels);
    }
  }
}

// Widening is exact, so both ways give the same bits; the first wins while few row tiles share a
// weight.
template <class Weight>
void HalfLinearBlock(const LinearTask& task) {
  if (task.row_end - task.row_begin <= 2 * kMaxTileRows) {
    LinearBlock<DirectPanels<Weight>>(task);
  } else {
    LinearBlock<WidenedPanels<Weight>>(task);
  }
}

// Integer sums are exact: the same bits either way. Where pairs are multiplied and added in one
// instruction the widening of weights hides behind it (1.1x at 32 rows).
template <class Block>
void QuantisedLinearBlock(const LinearTask& task) {
  if (kFusedPairDot || task.row_end - task.row_begin <= 2 * kMaxTileRows) {
    LinearBlock<DirectBlocks<Block>>(task);
  } else {
    LinearBlock<WidenedBlocks<Block>>(task);
  }
}

// The same bits either way. Where fours take one instruction, what unpacks them hides behind it;
// measured with AVX2.
[[maybe_unused]] void FoursLinearBlock(const LinearTask& task) {
  if (!kHalvedByteDots || task.row_end - task.row_begin <= 2 * kMaxTileRows) {
    LinearBlock<BytePanels<NibbleFours>>(task);
  } else {
    LinearBlock<UnpackedPanels>(task);
  }
}

// Magnitudes below 1e-30 count as zero.
constexpr float kLeastMagnitude = 1e-30f;

// Nearest even.
void QuantiseRow(const float* x, int64_t count, int16_t* q, float* scale) {
  VecF largest = {};
  for (int64_t i = 0; i < count; i += kLanes) largest = Max(largest, Abs(Load(x + i)));
  const float magnitude = ReduceMax(largest);
  const bool zero = magnitude < kLeastMagnitude;
  *scale = zero ? 0.0f : magnitude / 32767.0f;
  const VecF inverse = Set(zero ? 0.0f : 32767.0f / magnitude);
  const VecF magic = Set(12582912.0f);
  typedef int16_t Narrow __attribute__((vector_size(2 * kLanes)));
  for (int64_t i = 0; i < count; i += kLanes) {
    const VecI rounded = Bits(Load(x + i) * inverse + magic) - Bits(magic);
    const Narrow narrow = __builtin_convertvector(rounded, Narrow);
    __builtin_memcpy(q + i, &narrow, sizeof(narrow));
  }
}

// One block of `kVecs` vectors to bytes.
template <int kVecs>
inline void QuantiseBlock(const VecF* values, int8_t* q, pergola::kernels::cpu::BlockScales scales,
                          int64_t block, int32_t start_of_one) {
  const VecF magic = Set(12582912.0f);
  VecF largest = {};
#pragma GCC unroll 8
  for (int vec = 0; vec < kVecs; ++vec) largest = Max(largest, Abs(values[vec]));
  const float magnitude = ReduceMax(largest);
  const bool zero = magnitude < kLeastMagnitude;
  scales.scale[block] = zero ? 0.0f : magnitude / 127.0f;
  const VecF inverse = Set(zero ? 0.0f : 127.0f / magnitude);
  VecI rounded[kVecs], total = {};
#pragma GCC unroll 8
  for (int vec = 0; vec < kVecs; ++vec) {
    rounded[vec] = Bits(values[vec] * inverse + magic) - Bits(magic);
    total += rounded[vec];
  }
  StoreBytes(rounded, q);
  scales.start[block] = ByteDotStart(start_of_one * ReduceSumInt(total));
}

// Not every instruction set has products that take it.
[[maybe_unused]] void QuantiseBlocks(const float* x, int64_t count, int8_t* q,
                                     pergola::kernels::cpu::BlockScales scales) {
  constexpr int kVecs = static_cast<int>(kBlock) / kLanes;
  for (int64_t block = 0; block < count / kBlock; ++block, x += kBlock, q += kBlock) {
    VecF values[kVecs];
    for (int vec = 0; vec < kVecs; ++vec) values[vec] = Load(x + vec * kLanes);
    QuantiseBlock<kVecs>(values, q, scales, block, -8);
  }
}

}  // namespace
