#include "core/testing/numeric_matcher.h"

#include <cmath>
#include <cstring>

namespace pergola::testing {
namespace {

::testing::AssertionResult SameShape(ConstF32Matrix actual, ConstF32Matrix expected) {
  if (actual.rows == expected.rows && actual.cols == expected.cols) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "shapes differ: actual [" << actual.rows << ", " << actual.cols << "], expected ["
         << expected.rows << ", " << expected.cols << "]";
}

}  // namespace

::testing::AssertionResult Within(ConstF32Matrix actual, ConstF32Matrix expected,
                                  const std::function<double(int64_t row, int64_t col)>& bound) {
  if (auto same = SameShape(actual, expected); !same) return same;
  double worst = -1;
  int64_t worst_row = 0, worst_col = 0, failures = 0;
  for (int64_t row = 0; row < actual.rows; ++row) {
    for (int64_t col = 0; col < actual.cols; ++col) {
      const double limit = bound(row, col);
      const double error =
          std::abs(static_cast<double>(actual.row(row)[col]) - expected.row(row)[col]);
      // Not "error > limit": not a number must fail.
      if (!(error <= limit)) ++failures;
      const double ratio = std::isnan(error) ? INFINITY : error / (limit > 0 ? limit : 1e-300);
      if (ratio > worst) {
        worst = ratio;
        worst_row = row;
        worst_col = col;
      }
    }
  }
  if (failures == 0) return ::testing::AssertionSuccess();
  const double got = actual.row(worst_row)[worst_col];
  const double want = expected.row(worst_row)[worst_col];
  return ::testing::AssertionFailure()
         << failures << " of " << actual.rows * actual.cols << " elements are off; worst ["
         << worst_row << ", " << worst_col << "]: actual " << got << ", expected " << want
         << ", error " << std::abs(got - want) << ", bound " << bound(worst_row, worst_col);
}

::testing::AssertionResult BitEqual(ConstF32Matrix actual, ConstF32Matrix expected) {
  if (auto same = SameShape(actual, expected); !same) return same;
  for (int64_t row = 0; row < actual.rows; ++row) {
    for (int64_t col = 0; col < actual.cols; ++col) {
      const float got = actual.row(row)[col];
      const float want = expected.row(row)[col];
      if (std::memcmp(&got, &want, sizeof(float)) == 0) continue;
      return ::testing::AssertionFailure()
             << "first difference at [" << row << ", " << col << "]: actual " << got
             << ", expected " << want << ", difference " << got - want;
    }
  }
  return ::testing::AssertionSuccess();
}

double Norm(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return std::sqrt(sum);
}

double DotProductBound(int64_t terms, double norm_a, double norm_b) {
  // Half an epsilon per rounding, relative to the partial sum, which is below norm_a * norm_b.
  return 8 * std::sqrt(static_cast<double>(terms) + 1) * kEpsilon / 2 * norm_a * norm_b;
}

}  // namespace pergola::testing
