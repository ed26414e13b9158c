// Where a writer's bytes go: memory or a file that appears only when it is complete.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::formats {

// Takes the next bytes; an error ends the writing.
using ByteSink = std::function<Status(std::string_view bytes)>;

// Calls `emit` with a sink of a temporary file beside `path` and renames that to `path` when all is
// written; on error it is removed and `path` is left as it was. UNAVAILABLE when writing fails
// (disk full, no such folder), or what `emit` returns.
Status WriteFileWhole(const std::string& path, const std::function<Status(const ByteSink&)>& emit);

}  // namespace pergola::formats
