#include "service/scores.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace pergola::service {
namespace {

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::span<const float> RowOf(const Rows& rows, int64_t index) {
  return {rows.row(index), static_cast<size_t>(rows.width)};
}

}  // namespace

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double Cosine(std::span<const float> a, std::span<const float> b) {
  PERGOLA_DCHECK(a.size() == b.size());
  const double norm = std::sqrt(Dot(a, a)) * std::sqrt(Dot(b, b));
  return norm == 0.0 ? 0.0 : Dot(a, b) / norm;
}

std::vector<double> LabelScores(std::span<const float> logits, bool multi_label, bool raw) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (raw || scores.empty()) return scores;
  if (multi_label || scores.size() == 1) {
    for (double& score : scores) score = Sigmoid(score);
    return scores;
  }
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) {
    score = std::exp(score - top);
    sum += score;
  }
  for (double& score : scores) score /= sum;
  return scores;
}

std::vector<float> UnitRows(const Rows& rows, int64_t begin) {
  const int64_t count = std::max<int64_t>(rows.rows - begin, 0);
  std::vector<float> unit(static_cast<size_t>(count * rows.width));
  for (int64_t row = 0; row < count; ++row) {
    FormatFloats(RowOf(rows, begin + row), /*normalise=*/true,
                 {unit.data() + row * rows.width, static_cast<size_t>(rows.width)});
  }
  return unit;
}

double MaxSim(const Rows& query, const Rows& document, int64_t begin, bool raw) {
  double sum = 0.0;
  for (int64_t i = begin; i < query.rows; ++i) {
    double best = -1.0;
    for (int64_t j = begin; j < document.rows; ++j) {
      best = std::max(best, Cosine(RowOf(query, i), RowOf(document, j)));
    }
    sum += best;
  }
  if (query.rows <= begin || document.rows <= begin) return 0.0;
  return raw ? sum : sum / static_cast<double>(query.rows - begin);
}

}  // namespace pergola::service
