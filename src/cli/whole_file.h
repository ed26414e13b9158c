// Small files that flags name: certificates, keys.
#pragma once

#include <string>

#include "pergola/status.h"

namespace pergola::cli {

// At most 1 MiB. NOT_FOUND: cannot be read; INVALID_ARGUMENT: empty or longer.
Result<std::string> ReadWholeFile(const std::string& path);

// The key that a client of another process sends: the first line, without blanks around it.
// The same errors; INVALID_ARGUMENT also when that line is empty.
Result<std::string> ReadKeyFile(const std::string& path);

}  // namespace pergola::cli
