// From a weight per token to the lexical vector of a text: the largest weight of each token id.
//
//   const std::vector<SparseWeight> vector = FoldSparse(ids, weights, tokenizer);
//
// As BGE-M3 defines it (its processing of token weights): special tokens and weights that are not
// positive are left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace pergola::text {

struct SparseWeight {
  int32_t id = 0;
  float weight = 0.0f;
  friend bool operator==(const SparseWeight&, const SparseWeight&) = default;
};

// By rising id. ids.size() == weights.size(). Pure.
std::vector<SparseWeight> FoldSparse(std::span<const int32_t> ids, std::span<const float> weights,
                                     const tokenizers::Tokenizer& tokenizer);

}  // namespace pergola::text
