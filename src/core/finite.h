// Whether a row may be passed on: values that are no numbers never leave a process.
//
//   if (!AllFinite(row)) return InternalError("...");
#pragma once

#include <span>

namespace pergola {

// Thread-safe. At the speed of the caches.
bool AllFinite(std::span<const float> row);

}  // namespace pergola
