// Small files that flags name: certificates, keys.
#pragma once

#include <string>

#include "pergola/status.h"

namespace pergola::cli {

// At most 1 MiB. NOT_FOUND: cannot be read; INVALID_ARGUMENT: empty or longer.
Result<std::string> ReadWholeFile(const std::string& path);

}  // namespace pergola::cli
