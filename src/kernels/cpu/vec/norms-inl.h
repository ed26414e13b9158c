// LayerNorm and RMS norm of whole rows. A sum runs in four vectors (columns i, i + L, i + 2L, i +
// 3L of each stretch of 4L), then the tree of ReduceSum: its order depends on the width alone.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace {

using pergola::kernels::cpu::NormTask;

// Sum over columns of term(x) with the lanes beyond the width cleared after `term`.
template <class Term>
inline float SumOfTerms(const float* x, int64_t count, const Term& term) {
  VecF sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      sums[part] = term(Load(x + i + part * kLanes), sums[part]);
    }
  }
  for (int part = 0; i < count; i += kLanes, ++part) {
    const int64_t left = count - i;
    const VecF sum = term(LoadUpTo(x + i, left), sums[part]);
    // Lanes beyond the width keep what they had.
    sums[part] =
        Iota() < SetInt(static_cast<int32_t>(left < kLanes ? left : kLanes)) ? sum : sums[part];
  }
  return ReduceSum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

struct PlainTerm {
  VecF operator()(VecF x, VecF sum) const { return sum + x; }
};
struct SquareTerm {
  VecF centre;
  VecF operator()(VecF x, VecF sum) const {
    const VecF difference = x - centre;
    return MulAdd(difference, difference, sum);
  }
};

inline float InverseRoot(float mean, float epsilon) {
  return 1.0f / __builtin_sqrtf(mean + epsilon);
}

void LayerNorm(const NormTask& task, int64_t row_begin, int64_t row_end) {
  const float count = static_cast<float>(task.cols);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    float* y = task.y + row * task.y_stride;
    const VecF mean = Set(SumOfTerms(x, task.cols, PlainTerm()) / count);
    const float variance = SumOfTerms(x, task.cols, SquareTerm{mean}) / count;
    const VecF scale = Set(InverseRoot(variance, task.epsilon));
    for (int64_t i = 0; i < task.cols; i += kLanes) {
      const int64_t left = task.cols - i;
      const VecF normal = (LoadUpTo(x + i, left) - mean) * scale;
      const VecF weight = LoadUpTo(task.weight + i, left);
      const VecF bias = task.bias == nullptr ? VecF{} : LoadUpTo(task.bias + i, left);
      StoreUpTo(y + i, MulAdd(normal, weight, bias), left);
    }
  }
}

void RmsNorm(const NormTask& task, int64_t row_begin, int64_t row_end) {
  const float count = static_cast<float>(task.width);
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t begin = 0; begin < task.cols; begin += task.width) {
      const float* x = task.x + row * task.x_stride + begin;
      float* y = task.y + row * task.y_stride + begin;
      const float mean = SumOfTerms(x, task.width, SquareTerm{VecF{}}) / count;
      const VecF scale = Set(InverseRoot(mean, task.epsilon));
      for (int64_t i = 0; i < task.width; i += kLanes) {
        const int64_t left = task.width - i;
        const VecF weight = LoadUpTo(task.weight + i, left);
        StoreUpTo(y + i, LoadUpTo(x + i, left) * scale * weight, left);
      }
    }
  }
}

void RmsNormAdd(const NormTask& task, int64_t row_begin, int64_t row_end) {
  const float count = static_cast<float>(task.cols);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    float* y = task.y + row * task.y_stride;
    const float mean = SumOfTerms(x, task.cols, SquareTerm{VecF{}}) / count;
    const VecF scale = Set(InverseRoot(mean, task.epsilon));
    for (int64_t i = 0; i < task.cols; i += kLanes) {
      const int64_t left = task.cols - i;
      const VecF weight = LoadUpTo(task.weight + i, left);
      const VecF normal = LoadUpTo(x + i, left) * scale * weight;
      StoreUpTo(y + i, LoadUpTo(y + i, left) + normal, left);
    }
  }
}

}  // namespace
