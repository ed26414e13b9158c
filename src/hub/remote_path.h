// File names that a hub or an archive states are hostile until checked: this is the check. What
// passes stays below the folder it is joined to, on every file system, and prints harmlessly on a
// terminal.
#pragma once

#include <string_view>

#include "pergola/status.h"

namespace pergola::hub {

// INVALID_ARGUMENT unless `path` is a relative path of at most 16 components of 1 to 200 bytes,
// joined by single '/', valid UTF-8, without control characters, backslashes, "." and "..".
Status CheckRemotePath(std::string_view path);

}  // namespace pergola::hub
