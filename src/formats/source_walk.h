// Reads whatever a TensorSource hands out: what fuzz targets and the replay of their corpus do with
// a file that was accepted.
#pragma once

#include <cstdint>

#include "formats/tensor_source.h"

namespace pergola::formats {

// A sum over the first and the last byte of every tensor, every metadata text and number, and the
// result of looking up every name. INTERNAL when the source contradicts itself: a listed name that
// is not found, a view outside its type's rules.
Result<uint64_t> WalkSource(const TensorSource& source);

}  // namespace pergola::formats
