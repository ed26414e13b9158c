// Numbers of the GGUF format, shared by its reader and its writer.
#pragma once

#include <cstdint>
#include <optional>

#include "core/dtype.h"

namespace pergola::formats {

inline constexpr char kGgufMagic[] = {'G', 'G', 'U', 'F'};
inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint64_t kGgufDefaultAlignment = 32;
inline constexpr char kGgufAlignmentKey[] = "general.alignment";

// Type of a metadata value.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Number of a tensor type in a file.
uint32_t GgufTypeNumber(DType dtype);

// nullopt for a type that Pergola does not compute with.
std::optional<DType> GgufTypeFromNumber(uint32_t number);

}  // namespace pergola::formats
