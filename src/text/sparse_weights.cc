#include "text/sparse_weights.h"

#include <algorithm>

#include "core/check.h"

namespace pergola::text {

std::vector<SparseWeight> FoldSparse(std::span<const int32_t> ids, std::span<const float> weights,
                                     const tokenizers::Tokenizer& tokenizer) {
  PERGOLA_DCHECK(ids.size() == weights.size());
  std::vector<SparseWeight> folded;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (weights[i] > 0.0f && !tokenizer.IsSpecial(ids[i])) folded.push_back({ids[i], weights[i]});
  }
  std::sort(folded.begin(), folded.end(), [](const SparseWeight& a, const SparseWeight& b) {
    return a.id != b.id ? a.id < b.id : a.weight > b.weight;
  });
  const auto same_id = [](const SparseWeight& a, const SparseWeight& b) { return a.id == b.id; };
  folded.erase(std::unique(folded.begin(), folded.end(), same_id), folded.end());
  return folded;
}

}  // namespace pergola::text
