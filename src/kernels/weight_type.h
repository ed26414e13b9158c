// The types that weights of any checkpoint can be computed in: `--weights auto|as-is|f32|...`.
//
//   PERGOLA_ASSIGN_OR_RETURN(LinearOptions.weights, ParseWeightType("int8"));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "pergola/status.h"

namespace pergola::kernels {

enum class WeightType {
  kAsIs,  // as the file has them
  kF32,
  kF16,
  kBF16,
  kInt8,  // Q8_0: blocks of 32 with a scale
  kInt4,  // Q4_0
};

// "auto" and "as-is" (today the same), "f32", "f16", "bf16", "int8", "int4"; INVALID_ARGUMENT
// listing them for another name.
Result<WeightType> ParseWeightType(std::string_view name);

// What a matrix of `stored` with rows of `inputs` values is computed from. Rows that are no whole
// number of blocks stay as they are, and so do blocks that are no larger than the wanted ones.
DType ComputedType(WeightType type, DType stored, int64_t inputs);

// "q8_0", or "f32 as q8_0" where the two differ: the weights' part of a numeric class.
std::string WeightClassName(DType stored, DType computed);

}  // namespace pergola::kernels
