// Attention of one block of queries of one head, streaming over key tiles with a running maximum.
//
// Query blocks and key tiles are aligned to the start of the sequence and the walk over tiles is
// fixed by the block's place in it, so a sequence's result knows nothing of its batch. Scores and
// the product with the values are the same register tiles as any other product. A masked key's
// probability is exactly 0; the running maximum starts at a finite value, so no difference of
// infinities can occur.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/kernel_table.h"

namespace {

using pergola::kernels::AttentionMask;
using pergola::kernels::cpu::AttentionTask;
using pergola::kernels::cpu::kDistanceTile;
using pergola::kernels::cpu::kKeyTile;
using pergola::kernels::cpu::kQueryBlock;
using pergola::kernels::cpu::RoundUp;

constexpr float kNoScore = -3.0e38f;

// What the products of attention multiply: values as they are, or rounded to bf16 in pairs of k.
struct F32Operands {
  using Value = float;
  using Tile = F32Tile;
  static constexpr int64_t kGroup = 1;  // k that lie side by side in a panel
};
struct BF16Operands {
  using Value = uint16_t;
  using Tile = PairsTile;
  static constexpr int64_t kGroup = 2;
};

inline void StoreOperands(float* target, VecF values) { Store(target, values); }
inline void StoreOperands(uint16_t* target, VecF values) { StoreBF16(values, target); }

template <class Operands>
void PackKeys(const float* keys, int64_t stride, int64_t length, int64_t width, int64_t panel_begin,
              int64_t panel_end, std::byte* out) {
  using Value = typename Operands::Value;
  constexpr int64_t kGroup = Operands::kGroup;
  const int64_t padded = RoundUp(width, kGroup);
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    Value* target = reinterpret_cast<Value*>(out) + panel * kPanelCols * padded;
    const int64_t first = panel * kPanelCols;
    const int64_t count = length - first < kPanelCols ? length - first : kPanelCols;
    for (int64_t col = 0; col < padded; col += kLanes) {
      const int64_t end = padded - col < kLanes ? padded - col : kLanes;
      for (int64_t key = 0; key < kPanelCols; ++key) {
        Value row[kLanes];
        StoreOperands(
            row, key < count ? LoadUpTo(keys + (first + key) * stride + col, width - col) : VecF{});
        for (int64_t at = 0; at < end; at += kGroup) {
          __builtin_memcpy(target + (col + at) * kPanelCols + key * kGroup, row + at,
                           sizeof(Value) * kGroup);
        }
      }
    }
  }
}

template <class Operands>
void PackValues(const float* values, int64_t stride, int64_t length, int64_t width,
                int64_t panel_begin, int64_t panel_end, std::byte* out) {
  using Value = typename Operands::Value;
  constexpr int64_t kGroup = Operands::kGroup;
  const int64_t first = panel_begin * kPanelCols;
  const int64_t last = panel_end * kPanelCols < length ? panel_end * kPanelCols : length;
  const int64_t panel_values = RoundUp(length, kPanelCols) * kPanelCols;
  for (int64_t key = first; key < last; key += kGroup) {
    for (int64_t col = 0; col < RoundUp(width, kPanelCols); col += kLanes) {
      Value rows[kGroup][kLanes];
      for (int64_t i = 0; i < kGroup; ++i) {
        const bool within = key + i < last && col < width;
        StoreOperands(rows[i],
                      within ? LoadUpTo(values + (key + i) * stride + col, width - col) : VecF{});
      }
      Value* target = reinterpret_cast<Value*>(out) + col / kPanelCols * panel_values +
                      key * kPanelCols + col % kPanelCols * kGroup;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        for (int64_t i = 0; i < kGroup; ++i) target[lane * kGroup + i] = rows[i][lane];
      }
    }
  }
}

// Keys [begin, end) that a query or a block of queries sees, and the part of them in one tile.
struct KeyRange {
  int64_t begin, end;
};

inline KeyRange VisibleKeys(const AttentionTask& task, int64_t first_query, int64_t last_query) {
  KeyRange range{first_query - task.mask.left, last_query + int64_t{task.mask.right} + 1};
  if (range.begin < 0) range.begin = 0;
  if (range.end > task.length) range.end = task.length;
  return range;
}

// The block's scratch: scores and then probabilities of one key tile, sums of values, and per query
// the running maximum and the sum of probabilities.
struct AttentionState {
  float* scores;       // [kQueryBlock][kKeyTile]
  float* sums;         // [kQueryBlock][padded]
  float* maximum;      // [kQueryBlock]
  float* total;        // [kQueryBlock][16], by lane: reduced only once, at the end
  float* by_distance;  // [kQueryBlock + kKeyTile][kDistanceTile]
  // Rounded operands: queries [kQueryBlock][W rounded up to 2], probabilities
  // [kQueryBlock][kKeyTile].
  uint16_t* rounded_queries;
  uint16_t* rounded_probabilities;
  int64_t padded;  // W rounded up to 16

  explicit AttentionState(const AttentionTask& task)
      : scores(task.scratch),
        sums(scores + kQueryBlock * kKeyTile),
        maximum(sums + kQueryBlock * RoundUp(task.width, kPanelCols)),
        total(maximum + kQueryBlock),
        by_distance(total + kQueryBlock * kPanelCols),
        rounded_queries(
            reinterpret_cast<uint16_t*>(by_distance + (kQueryBlock + kKeyTile) * kDistanceTile)),
        rounded_probabilities(rounded_queries + kQueryBlock * RoundUp(task.width, 2)),
        padded(RoundUp(task.width, kPanelCols)) {}
};

// Rows of one head, queries or keys.
template <class Value>
struct HeadRows {
  const Value* data;
  int64_t stride;
};

// products = x . vectors for the vectors of `num_panels` panels.
template <class Operands>
inline void ProductTile(HeadRows<typename Operands::Value> x, const RowTiles& rows,
                        const typename Operands::Value* vectors, int64_t width, int64_t num_panels,
                        float* products, int64_t products_stride) {
  typename Operands::Tile tile;
  tile.a = x.data;
  tile.a_stride = x.stride;
  if constexpr (requires { tile.b_stride; }) tile.b_stride = kPanelCols;
  tile.depth = RoundUp(width, Operands::kGroup);
  tile.panel_stride = tile.depth * kPanelCols;
  tile.c_stride = products_stride;
  tile.first = true;
  int64_t panels = 0;
  for (int64_t panel = 0; panel < num_panels; panel += panels) {
    panels = num_panels - panel >= kTilePanels ? kTilePanels : 1;
    tile.b = vectors + panel * tile.panel_stride;
    tile.c = products + panel * kPanelCols;
    RunRowTiles(rows, panels, tile);
  }
}

// Adds to a tile of raw scores what the distance vectors say. All distances of the tile meet few
// neighbouring vectors: products with those are made first, then looked up.
inline void AddDistanceVectors(const AttentionTask& task, const AttentionState& state,
                               const RowTiles& queries, KeyRange keys) {
  const int64_t first = keys.begin - (task.query_end - 1);
  const int64_t last = keys.end - 1 - task.query_begin;
  const int64_t reach = task.distance_reach;
  int32_t columns[kQueryBlock + kKeyTile];  // of the products, by distance - first
  for (int64_t distance = first; distance <= last; ++distance) {
    const int64_t near = distance < -reach ? -reach : distance > reach ? reach : distance;
    columns[distance - first] = task.distance_rows[near + reach];
  }
  const int64_t panel = columns[0] / kPanelCols;
  const int64_t num_panels = columns[last - first] / kPanelCols + 1 - panel;
  for (int64_t i = 0; i <= last - first; ++i) {
    columns[i] -= static_cast<int32_t>(panel * kPanelCols);
  }
  const int64_t num_queries = task.query_end - task.query_begin;
  const int64_t num_keys = keys.end - keys.begin;
  if (task.distance_keys != nullptr) {
    ProductTile<F32Operands>({task.q + task.query_begin * task.q_stride, task.q_stride}, queries,
                             task.distance_keys + panel * kPanelCols * task.width, task.width,
                             num_panels, state.by_distance, kDistanceTile);
    for (int64_t query = 0; query < num_queries; ++query) {
      const float* products = state.by_distance + query * kDistanceTile;
      const int32_t* column = columns + (num_queries - 1 - query);
      float* scores = state.scores + query * kKeyTile;
      for (int64_t key = 0; key < num_keys; ++key) scores[key] += products[column[key]];
    }
  }
  if (task.distance_queries != nullptr) {
    ProductTile<F32Operands>({task.key_rows + keys.begin * task.key_stride, task.key_stride},
                             RowTiles(num_keys),
                             task.distance_queries + panel * kPanelCols * task.width, task.width,
                             num_panels, state.by_distance, kDistanceTile);
    for (int64_t query = 0; query < num_queries; ++query) {
      const int32_t* column = columns + (num_queries - 1 - query);
      float* scores = state.scores + query * kKeyTile;
      for (int64_t key = 0; key < num_keys; ++key) {
        scores[key] += state.by_distance[key * kDistanceTile + column[key]];
      }
    }
  }
}

// Adds the bias of the distance of every key of the tile to the scaled scores.
inline void AddDistanceBias(const AttentionTask& task, int64_t query, int64_t key_begin,
                            int64_t count, float* scores) {
  const int64_t reach = task.bias_reach;
  for (int64_t i = 0; i < count; ++i) {
    int64_t distance = key_begin + i - query;
    distance = distance < -reach ? -reach : distance > reach ? reach : distance;
    scores[i] += task.distance_bias[distance + reach];
  }
}

// Scales one query's raw scores, hides what it may not see and returns the new running maximum.
// kMasked = false where every key of the tile is seen: the same bits, cheaper.
template <bool kMasked>
inline float PrepareScores(const AttentionTask& task, int64_t query, int64_t key_begin,
                           int64_t count, float maximum, float* scores) {
  const KeyRange seen = VisibleKeys(task, query, query);
  const VecI begin = SetInt(static_cast<int32_t>(seen.begin - key_begin));
  const VecI end = SetInt(static_cast<int32_t>(seen.end - key_begin));
  const VecF scale = Set(task.scale);
  if (task.distance_bias != nullptr) {
    for (int64_t i = 0; i < count; i += kLanes) Store(scores + i, Load(scores + i) * scale);
    AddDistanceBias(task, query, key_begin, count, scores);
  }
  VecF largest = Set(maximum);
  for (int64_t i = 0; i < count; i += kLanes) {
    VecF score = Load(scores + i);
    if (task.distance_bias == nullptr) score = score * scale;
    if constexpr (kMasked) {
      const VecI key = Iota() + static_cast<int32_t>(i);
      score = ((key >= begin) & (key < end)) ? score : Set(kNoScore);
    }
    Store(scores + i, score);
    largest = Max(largest, score);
  }
  return ReduceMax(largest);
}

// Probabilities of scores relative to `base`; returns their sums by lane.
template <bool kMasked, class Value>
inline VecF Exponentiate(VecF base, int64_t count, const float* scores, Value* probabilities) {
  VecF total = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const VecF score = Load(scores + i);
    VecF probability = ExpOfNegative(score - base);
    if constexpr (kMasked) probability = score > kNoScore ? probability : VecF{};
    StoreOperands(probabilities + i, probability);
    total += probability;
  }
  return total;
}

// One query's softmax over a key tile: probabilities relative to the new running maximum, and what
// was summed before brought to the same base. `count` is a multiple of 16.
template <class Value>
inline void SoftmaxTileRow(const AttentionTask& task, const AttentionState& state, int64_t row,
                           int64_t key_begin, int64_t count, Value* probabilities) {
  const int64_t query = task.query_begin + row;
  const KeyRange seen = VisibleKeys(task, query, query);
  const bool all_seen = seen.begin <= key_begin && key_begin + count <= seen.end;
  float* scores = state.scores + row * kKeyTile;
  const float before = state.maximum[row];
  const float maximum = all_seen
                            ? PrepareScores<false>(task, query, key_begin, count, before, scores)
                            : PrepareScores<true>(task, query, key_begin, count, before, scores);
  const VecF base = Set(maximum);
  Value* own = probabilities + row * kKeyTile;
  const VecF total = all_seen ? Exponentiate<false>(base, count, scores, own)
                              : Exponentiate<true>(base, count, scores, own);
  float* row_total = state.total + row * kPanelCols;
  if (maximum == before) {
    Store(row_total, Load(row_total) + total);
    return;
  }
  const VecF correction = ExpOfNegative(Set(before) - base);
  Store(row_total, Load(row_total) * correction + total);
  float* sums = state.sums + row * state.padded;
  for (int64_t i = 0; i < state.padded; i += kLanes) Store(sums + i, Load(sums + i) * correction);
  state.maximum[row] = maximum;
}

// sums += probabilities . values of `keys`. An odd last key has a partner of probability 0.
template <class Operands>
inline void ValueTile(const AttentionTask& task, const AttentionState& state, const RowTiles& rows,
                      KeyRange keys, const typename Operands::Value* probabilities) {
  const auto* values = reinterpret_cast<const typename Operands::Value*>(task.values);
  typename Operands::Tile tile;
  tile.a = probabilities;
  tile.a_stride = kKeyTile;
  if constexpr (requires { tile.b_stride; }) tile.b_stride = kPanelCols;
  tile.panel_stride = RoundUp(task.length, kPanelCols) * kPanelCols;
  tile.depth = RoundUp(keys.end - keys.begin, Operands::kGroup);
  tile.c_stride = state.padded;
  tile.first = false;
  const int64_t num_panels = state.padded / kPanelCols;
  int64_t panels = 0;
  for (int64_t panel = 0; panel < num_panels; panel += panels) {
    panels = num_panels - panel >= kTilePanels ? kTilePanels : 1;
    tile.b = values + panel * tile.panel_stride + keys.begin * kPanelCols;
    tile.c = state.sums + panel * kPanelCols;
    RunRowTiles(rows, panels, tile);
  }
}

// The block's queries as the products take them.
template <class Operands>
inline HeadRows<typename Operands::Value> BlockQueries(const AttentionTask& task,
                                                       const AttentionState& state) {
  const float* queries = task.q + task.query_begin * task.q_stride;
  if constexpr (std::is_same_v<typename Operands::Value, float>) {
    return {queries, task.q_stride};
  } else {
    const int64_t stride = RoundUp(task.width, 2);
    for (int64_t row = 0; row < task.query_end - task.query_begin; ++row) {
      RoundToBF16(queries + row * task.q_stride, task.width, state.rounded_queries + row * stride);
    }
    return {state.rounded_queries, stride};
  }
}

template <class Operands>
void AttentionBlock(const AttentionTask& task) {
  using Value = typename Operands::Value;
  const AttentionState state(task);
  const int64_t num_queries = task.query_end - task.query_begin;
  const RowTiles rows(num_queries);
  const auto queries = BlockQueries<Operands>(task, state);
  const auto* task_keys = reinterpret_cast<const Value*>(task.keys);
  Value* probabilities;  // over the scores, if they are of one size
  if constexpr (std::is_same_v<Value, float>) {
    probabilities = state.scores;
  } else {
    probabilities = state.rounded_probabilities;
  }
  for (int64_t row = 0; row < num_queries; ++row) {
    state.maximum[row] = kNoScore;
    Store(state.total + row * kPanelCols, VecF{});
  }
  for (int64_t i = 0; i < num_queries * state.padded; i += kLanes) Store(state.sums + i, VecF{});

  const KeyRange seen = VisibleKeys(task, task.query_begin, task.query_end - 1);
  int64_t key = seen.begin / kPanelCols * kPanelCols;
  while (key < seen.end) {
    const int64_t tile_end = (key / kKeyTile + 1) * kKeyTile;
    const int64_t end = tile_end < seen.end ? tile_end : seen.end;
    const int64_t num_panels = RoundUp(end - key, kPanelCols) / kPanelCols;
    ProductTile<Operands>(queries, rows, task_keys + key * RoundUp(task.width, Operands::kGroup),
                          task.width, num_panels, state.scores, kKeyTile);
    if (task.distance_rows != nullptr) AddDistanceVectors(task, state, rows, {key, end});
    for (int64_t row = 0; row < num_queries; ++row) {
      SoftmaxTileRow(task, state, row, key, num_panels * kPanelCols, probabilities);
    }
    ValueTile<Operands>(task, state, rows, {key, end}, probabilities);
    key = end;
  }

  for (int64_t row = 0; row < num_queries; ++row) {
    const VecF inverse = Set(1.0f / ReduceSum(Load(state.total + row * kPanelCols)));
    const float* sums = state.sums + row * state.padded;
    float* out = task.out + (task.query_begin + row) * task.out_stride;
    for (int64_t i = 0; i < task.width; i += kLanes) {
      StoreUpTo(out + i, Load(sums + i) * inverse, task.width - i);
    }
  }
}

}  // namespace
