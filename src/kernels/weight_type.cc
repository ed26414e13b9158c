#include "kernels/weight_type.h"

#include "core/ascii.h"

namespace pergola::kernels {
namespace {

struct Name {
  std::string_view name;
  WeightType type;
};
constexpr Name kNames[] = {{"auto", WeightType::kAsIs}, {"as-is", WeightType::kAsIs},
                           {"f32", WeightType::kF32},   {"f16", WeightType::kF16},
                           {"bf16", WeightType::kBF16}, {"int8", WeightType::kInt8},
                           {"int4", WeightType::kInt4}};

DType WantedType(WeightType type, DType stored) {
  switch (type) {
    case WeightType::kAsIs:
      break;
    case WeightType::kF32:
      return DType::kF32;
    case WeightType::kF16:
      return DType::kF16;
    case WeightType::kBF16:
      return DType::kBF16;
    case WeightType::kInt8:
      return stored == DType::kQ4_0 ? stored : DType::kQ8_0;
    case WeightType::kInt4:
      return DType::kQ4_0;
  }
  return stored;
}

}  // namespace

Result<WeightType> ParseWeightType(std::string_view name) {
  std::string known;
  for (const Name& entry : kNames) {
    if (entry.name == name) return entry.type;
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  return InvalidArgumentError("weights '" + std::string(name) + "' are unknown; known are " +
                              known);
}

std::string WeightClassName(DType stored, DType computed) {
  std::string text(DTypeName(stored));
  if (stored != computed) text.append(" as ").append(DTypeName(computed));
  return LowerCase(text);
}

DType ComputedType(WeightType type, DType stored, int64_t inputs) {
  const DType wanted = WantedType(type, stored);
  return inputs % BlockElements(wanted) == 0 ? wanted : stored;
}

}  // namespace pergola::kernels
