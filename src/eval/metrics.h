// How good a ranking or a set of vectors is: the measures that retrieval papers report. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pergola::eval {

// Normalised discounted cumulative gain of the first `depth` places, as trec_eval computes it:
// sum of gain / log2(place + 1) over that of the best order. `gains`: of the ranked documents, in
// order, 0 = not relevant. `all_gains`: of every relevant document. 0 when nothing is relevant.
double Ndcg(std::span<const double> gains, std::span<const double> all_gains, size_t depth);

// Share of the `num_relevant` documents that are among the first `depth`. 0 when there are none.
double Recall(std::span<const double> gains, size_t num_relevant, size_t depth);

// 1 / place of the first relevant document among the first `depth`; 0 without one.
double ReciprocalRank(std::span<const double> gains, size_t depth);

// Correlation of two lists of equal size; 0 when one of them is constant or shorter than 2.
double Pearson(std::span<const double> a, std::span<const double> b);
// Of their ranks; equal values share the mean of their ranks.
double Spearman(std::span<const double> a, std::span<const double> b);

// Mean share of the entries of a[i] that are also in b[i]; lists of equal count.
double Agreement(const std::vector<std::vector<uint32_t>>& a,
                 const std::vector<std::vector<uint32_t>>& b);

// The value below which a share `p` (0..1) of `values` lies (nearest rank). `values` not empty.
double Quantile(std::vector<double> values, double p);

}  // namespace pergola::eval
