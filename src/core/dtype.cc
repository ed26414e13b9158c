#include "core/dtype.h"

namespace pergola {
namespace {

struct DTypeFacts {
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};

// In the order of the enum.
constexpr DTypeFacts kFacts[kNumDTypes] = {
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"I8", 1, 1},
    {"I32", 1, 4},      {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},   {"Q8_0", 32, 34},   {"Q2_K", 256, 84},  {"Q3_K", 256, 110},
    {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18},
};

const DTypeFacts& Facts(DType dtype) { return kFacts[static_cast<int>(dtype)]; }

}  // namespace

std::string_view DTypeName(DType dtype) { return Facts(dtype).name; }
int64_t BlockElements(DType dtype) { return Facts(dtype).block_elements; }
int64_t BlockBytes(DType dtype) { return Facts(dtype).block_bytes; }

}  // namespace pergola
