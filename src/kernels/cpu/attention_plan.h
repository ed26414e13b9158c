// How attention over a ragged batch is cut into blocks of queries and panels of keys.
//
// Both start anew at each sequence, and a sequence is cut by its own length alone: numerics rule 6.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops_types.h"

namespace pergola::kernels::cpu {

class AttentionPlan {
 public:
  // Queries [begin, end) of a sequence, relative to its first key.
  struct QueryBlock {
    int32_t sequence;
    int32_t begin;
    int32_t end;
  };
  struct KeyPanel {
    int32_t sequence;
    int32_t index;  // within the sequence
  };

  // Replaces what was planned before; keeps the memory. `past`: keys before the first query of each
  // sequence; queries are numbered from there.
  void Build(const RaggedView& batch, int64_t past);

  const std::vector<QueryBlock>& query_blocks() const { return query_blocks_; }
  const std::vector<KeyPanel>& key_panels() const { return key_panels_; }
  // Position in key_panels() of the first panel of a sequence.
  int64_t first_panel(int64_t sequence) const {
    return first_panels_[static_cast<size_t>(sequence)];
  }

 private:
  std::vector<QueryBlock> query_blocks_;
  std::vector<KeyPanel> key_panels_;
  std::vector<int64_t> first_panels_;
};

}  // namespace pergola::kernels::cpu
