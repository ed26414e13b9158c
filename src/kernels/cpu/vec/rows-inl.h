// Products with weights that are read where the checkpoint has them: N rows of K values, one after
// the other, each used once and not repacked. For matrices that pass through the cache once a call
// and are bound by memory, as the projection to a vocabulary.
//
// Lanes are inputs here. Each output element is kLanes chains of multiply-adds, lane l of k = l, l
// + kLanes, ..., in ascending order, folded by ReduceSum; then the fold of what is left of K. Fixed
// by K alone, so neither the tile's shape nor the rows beside it change a bit (docs/numerics.md,
// rules 2, 3 and 5). Weights are widened to the f32 value that DequantiseRow gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/vec/pages-inl.h"

namespace {

// Of any alignment: where a tensor lies in a file says nothing.
inline VecF LoadRow(float, const std::byte* at) { return FromBits(LoadInt(at)); }
inline VecF LoadRow(F16, const std::byte* at) {
  return LoadF16(reinterpret_cast<const uint16_t*>(at));
}
inline VecF LoadRow(BF16, const std::byte* at) {
  return LoadBF16(reinterpret_cast<const uint16_t*>(at));
}

// One step along a row of weights: kVecs vectors, widened with what Begin found. LoadLast gives the
// last `count` values, at most kLanes, and zeros.
template <class Value>
struct PlainRow {
  static constexpr int kVecs = 2;
  static constexpr int kTemporaries = 2;
  static constexpr int64_t kStep = kVecs * kLanes;
  static constexpr int64_t kVecBytes = kLanes * static_cast<int64_t>(sizeof(Value));
  static constexpr int64_t kStepBytes = kVecs * kVecBytes;
  struct Scale {};
  static Scale Begin(const std::byte*) { return {}; }
  static VecF Load(Scale, const std::byte* at, int vec) {
    return LoadRow(Value(), at + vec * kVecBytes);
  }
  static VecF LoadLast(const std::byte* at, int64_t count) {
    std::byte values[kVecBytes] = {};
    __builtin_memcpy(values, at, static_cast<size_t>(count) * sizeof(Value));
    return LoadRow(Value(), values);
  }
};

// Blocks of an f16 scale and 32 bytes, docs/formats/gguf.md; rows are whole blocks.
struct Q8Row {
  static constexpr int kVecs = static_cast<int>(kBlock) / kLanes;
  static constexpr int kTemporaries = 6;
  static constexpr int64_t kStep = kBlock;
  static constexpr int64_t kStepBytes = 2 + kBlock;
  using Scale = VecF;
  // The lanes behind the scale are bytes of the same block.
  static Scale Begin(const std::byte* at) { return SetF16(at); }
  static VecF Load(Scale scale, const std::byte* at, int vec) {
    return ToFloat(LoadBytes(at + 2 + vec * kLanes)) * scale;
  }
};

// From so many rows of activations on more than two outputs are computed together, and multiplying
// takes longer than reading.
constexpr int kSharedRows = 4;

// Weights are fetched so many bytes ahead, or a tile ahead where that is more: far enough for
// memory, and near enough to be still in the first-level cache.
constexpr int64_t kFetchAhead = 8192;

template <class Row>
struct RowsTile {
  const float* a;  // [row][K]
  int64_t a_stride;
  const std::byte* b;  // [output], row_bytes apart
  int64_t row_bytes;
  int64_t depth;  // K
  float* c;       // [row][output]
  int64_t c_stride;
};

// Folds of sums [row][output] to where they end up; many in one go, which gives the same bits.
template <int kRows, int kOutputs>
inline void StoreSums(const VecF (&acc)[kRows][kOutputs], float* c, int64_t c_stride) {
  constexpr int kSums = kRows * kOutputs;
#pragma GCC unroll 16
  for (int first = 0; first < kSums; first += kLanes) {
    VecF values[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const int sum = first + i < kSums ? first + i : first;
      values[i] = acc[sum / kOutputs][sum % kOutputs];
    }
    if constexpr (kSums >= kLanes / 2) values[0] = ReduceSums(values);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const int sum = first + i;
      if (sum >= kSums) continue;
      c[sum / kOutputs * c_stride + sum % kOutputs] =
          kSums >= kLanes / 2 ? values[0][i] : ReduceSum(values[i]);
    }
  }
}

template <int kRows, int kOutputs, class Row>
void RunTile(const RowsTile<Row>& tile) {
  VecF acc[kRows][kOutputs];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int out = 0; out < kOutputs; ++out) acc[row][out] = VecF{};
  }
  const float* a = tile.a;
  const std::byte* b = tile.b;
  const int64_t a_stride = tile.a_stride;
  const int64_t row_bytes = tile.row_bytes;
  // In one stream: what a tile reads side by side the prefetcher does not follow. Few rows read at
  // the speed of memory, straight into the first-level cache; that of many rows belongs to them.
  constexpr int kCacheLevel = kRows < kSharedRows ? 3 : 2;
  const int64_t tile_bytes = kOutputs * row_bytes;
  const std::byte* ahead = b + (tile_bytes < kFetchAhead ? kFetchAhead : tile_bytes);
  for (int64_t steps = tile.depth / Row::kStep; steps > 0; --steps) {
    typename Row::Scale scales[kOutputs];
#pragma GCC unroll 16
    for (int out = 0; out < kOutputs; ++out) {
      scales[out] = Row::Begin(b + out * row_bytes);
      for (int64_t line = 0; line < Row::kStepBytes; line += 64) {
        __builtin_prefetch(ahead + line, 0, kCacheLevel);
      }
      ahead += Row::kStepBytes;
    }
#pragma GCC unroll 16
    for (int vec = 0; vec < Row::kVecs; ++vec) {
      VecF weights[kOutputs];
#pragma GCC unroll 16
      for (int out = 0; out < kOutputs; ++out) {
        weights[out] = Row::Load(scales[out], b + out * row_bytes, vec);
      }
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const VecF values = Load(a + row * a_stride + vec * kLanes);
#pragma GCC unroll 16
        for (int out = 0; out < kOutputs; ++out) {
          acc[row][out] = MulAdd(values, weights[out], acc[row][out]);
          KeepInRegister(acc[row][out]);
        }
      }
    }
    a += Row::kStep;
    b += Row::kStepBytes;
  }
  StoreSums(acc, tile.c, tile.c_stride);
}

// Adds the products of the last values of rows that are no whole number of steps. On its own: in
// the tile the padding would take registers from the sums.
template <class Row>
void AddLast(const RowsTile<Row>& tile, int64_t rows, int64_t outputs) {
  const int64_t steps = tile.depth / Row::kStep;
  const std::byte* b = tile.b + steps * Row::kStepBytes;
  const float* a = tile.a + steps * Row::kStep;
  for (int64_t left = tile.depth % Row::kStep; left > 0; left -= kLanes) {
    const int64_t count = left < kLanes ? left : kLanes;
    for (int64_t out = 0; out < outputs; ++out) {
      const VecF weights = Row::LoadLast(b + out * tile.row_bytes, count);
      for (int64_t row = 0; row < rows; ++row) {
        tile.c[row * tile.c_stride + out] +=
            ReduceSum(LoadUpTo(a + row * tile.a_stride, count) * weights);
      }
    }
    b += Row::kVecBytes;
    a += kLanes;
  }
}

// How many outputs stay in registers beside so many rows. Two chains hide some of each other's
// latency; more would be more streams. Many rows share the loads of up to four outputs.
template <class Row>
constexpr int OutputsAtOnce(int rows) {
  int outputs = rows < kSharedRows ? 2 : 4;
  while (outputs > 1 && rows * outputs + outputs + Row::kTemporaries > kVectorRegisters) {
    --outputs;
  }
  return outputs;
}

template <class Row, int kRows = kMaxTileRows>
void RunOutputs(int64_t rows, int64_t outputs, const RowsTile<Row>& first_tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunOutputs<Row, kRows - 1>(rows, outputs, first_tile);
  }
  constexpr int kOutputs = OutputsAtOnce<Row>(kRows);
  RowsTile<Row> tile = first_tile;
  for (; outputs >= kOutputs; outputs -= kOutputs) {
    RunTile<kRows, kOutputs>(tile);
    tile.b += kOutputs * tile.row_bytes;
    tile.c += kOutputs;
  }
  if constexpr (kOutputs > 1) {
    for (; outputs > 0; --outputs) {
      RunTile<kRows, 1>(tile);
      tile.b += tile.row_bytes;
      ++tile.c;
    }
  }
}

// A panel is kPanelCols rows of weights: with many rows of activations they stay in the first-level
// cache while all pass over them.
template <class Row>
void RowsBlock(const LinearTask& task) {
  const RowTiles tiles(task.row_end - task.row_begin);
  float* partial = reinterpret_cast<float*>(task.scratch);
  RowsTile<Row> tile;
  tile.a_stride = task.a_stride;
  tile.row_bytes = task.panel_bytes / kPanelCols;
  tile.depth = task.inputs;
  tile.c_stride = (task.panel_end - task.panel_begin) * kPanelCols;
  // On pages of 4 KiB one row reads 1.3 times as fast, and eight rows are 1.2 to 1.6 times as fast.
  FindPages(task.panels + task.panel_begin * task.panel_bytes,
            (task.panel_end - task.panel_begin) * task.panel_bytes);
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    const int64_t left = task.outputs - panel * kPanelCols;
    tile.b = task.panels + panel * task.panel_bytes;
    float* sums = partial + (panel - task.panel_begin) * kPanelCols;
    for (int64_t i = 0; i < tiles.count; ++i) {
      tile.a =
          static_cast<const float*>(task.a) + (task.row_begin + tiles.begin(i)) * task.a_stride;
      tile.c = sums + tiles.begin(i) * tile.c_stride;
      const int64_t outputs = left < kPanelCols ? left : kPanelCols;
      RunOutputs<Row>(tiles.size(i), outputs, tile);
      if constexpr (requires { Row::kVecBytes; }) AddLast<Row>(tile, tiles.size(i), outputs);
    }
    Finish(task, sums, tile.c_stride, panel, 1);
  }
}

template <class Row>
void DecodeRow(const std::byte* row, int64_t count, float scale, float* y) {
  const VecF factor = Set(scale);
  for (; count >= Row::kStep; count -= Row::kStep) {
    const auto own = Row::Begin(row);
#pragma GCC unroll 8
    for (int vec = 0; vec < Row::kVecs; ++vec) {
      Store(y + vec * kLanes, Row::Load(own, row, vec) * factor);
    }
    row += Row::kStepBytes;
    y += Row::kStep;
  }
  if constexpr (requires { Row::kVecBytes; }) {
    for (; count > 0; count -= kLanes) {
      const int64_t lanes = count < kLanes ? count : kLanes;
      StoreUpTo(y, Row::LoadLast(row, lanes) * factor, lanes);
      row += Row::kVecBytes;
      y += kLanes;
    }
  }
}

#if defined(__VPCLMULQDQ__)

// Rows of many ids lie anywhere in a table that is larger than the caches: the time is that of
// memory, which the checksum passes in the shade of while nothing but registers is in its way.
template <class Row>
void SendRow(pergola::kernels::cpu::SentRow& task) {
  constexpr int64_t kStretch = FoldedCrc::kVecs * kLanes;
  constexpr int64_t kSteps = kStretch / Row::kStep;
  constexpr int64_t kStretchBytes = kSteps * Row::kStepBytes;
  const VecF factor = Set(task.scale);
  VecF differences = {};  // of values to themselves: 0 unless one is not finite
  const std::byte* row = task.row;
  float* y = task.y;
  const auto decode = [&](__m512i(&next)[FoldedCrc::kVecs]) {
    for (int64_t line = 0; line < kStretchBytes; line += 64) {
      __builtin_prefetch(task.next + (row - task.row) + line, 0, 2);
    }
#pragma GCC unroll 8
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto own = Row::Begin(row);
#pragma GCC unroll 8
      for (int vec = 0; vec < Row::kVecs; ++vec) {
        const VecF value = Row::Load(own, row, vec) * factor;
        Store(y, value);
        differences += value - value;
        next[step * Row::kVecs + vec] = reinterpret_cast<__m512i>(value);
        y += kLanes;
      }
      row += Row::kStepBytes;
    }
  };
  int64_t stretches = task.count / kStretch;
  if (stretches > 0) {
    __m512i next[FoldedCrc::kVecs];
    decode(next);
    FoldedCrc folded(task.crc, next);
    for (--stretches; stretches > 0; --stretches) {
      decode(next);
      folded.Add(next);
    }
    task.crc = folded.Value();
  }
  const int64_t left = task.count % kStretch;
  DecodeRow<Row>(row, left, task.scale, y);
  for (int64_t i = 0; i < left; ++i) differences[0] += y[i] - y[i];
  task.crc = Crc32c(task.crc, reinterpret_cast<const std::byte*>(y), left * 4);
  task.finite = ReduceSum(differences) == 0;
}

#endif

}  // namespace
