// Comparing matrices in tests: bit for bit, or within a bound that the test derives from sizes,
// norms and epsilons. A failure names the worst element, its place, both values and the bound.
//
//   EXPECT_TRUE(BitEqual(actual, expected));
//   EXPECT_TRUE(Within(actual, expected, [&](int64_t row, int64_t col) {
//     return DotProductBound(inputs, Norm(x, row), Norm(w, col));
//   }));
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "core/tensor.h"

namespace pergola::testing {

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

// |actual - expected| <= bound(row, col) for every element, and no element that is not a number.
// The worst element is the one with the largest error relative to its bound.
::testing::AssertionResult Within(ConstF32Matrix actual, ConstF32Matrix expected,
                                  const std::function<double(int64_t row, int64_t col)>& bound);

// The same bits in every element; -0 differs from 0.
::testing::AssertionResult BitEqual(ConstF32Matrix actual, ConstF32Matrix expected);

// Euclidean norm of `count` values.
double Norm(const float* values, int64_t count);

// How far a sum of `terms` products in f32 may be from the exact one, for factors of the given
// norms. The rounding errors of a chain are independent in practice, so they grow with the square
// root of its length; eight standard deviations.
double DotProductBound(int64_t terms, double norm_a, double norm_b);

}  // namespace pergola::testing
