#include "formats/gguf_types.h"

namespace pergola::formats {
namespace {

// In the order of DType.
constexpr uint32_t kNumbers[kNumDTypes] = {
    0,   // F32
    1,   // F16
    30,  // BF16
    24,  // I8
    26,  // I32
    2,   // Q4_0
    3,   // Q4_1
    6,   // Q5_0
    7,   // Q5_1
    8,   // Q8_0
    10,  // Q2_K
    11,  // Q3_K
    12,  // Q4_K
    13,  // Q5_K
    14,  // Q6_K
    20,  // IQ4_NL
};

}  // namespace

uint32_t GgufTypeNumber(DType dtype) { return kNumbers[static_cast<int>(dtype)]; }

std::optional<DType> GgufTypeFromNumber(uint32_t number) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kNumbers[i] == number) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace pergola::formats
