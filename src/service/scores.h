// From what a model computes to scores: of a pair by a classifier or by late interaction, of
// classes. Pure functions; the same bits on every route and in the library.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "service/inference_service.h"

namespace pergola::service {

// 1 / (1 + exp(-x)).
double Sigmoid(double x);

// a.b / (|a| |b|) in double; 0 when either is zero. Sizes are equal.
double Cosine(std::span<const float> a, std::span<const float> b);

// What the columns of a kLogits row mean as scores: a softmax over classes that exclude each other,
// else a sigmoid of each (one column, or `multi_label`). `raw`: the logits.
std::vector<double> LabelScores(std::span<const float> logits, bool multi_label, bool raw);

// Late interaction (ColBERT): for each token of the query the cosine to the nearest token of the
// document; their mean or, if `raw`, their sum. Rows before `begin` do not count. 0 without rows.
double MaxSim(const Rows& query, const Rows& document, int64_t begin, bool raw);

// Rows from `begin` on at unit length, end to end.
std::vector<float> UnitRows(const Rows& rows, int64_t begin);

}  // namespace pergola::service
