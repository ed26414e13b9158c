// SHA-256 of bytes in memory or of a mapped file, as 64 lower-case hexadecimal digits: what slices
// of a model carry to prove what they are.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::formats {

std::string Sha256Hex(std::span<const std::byte> bytes);
std::string Sha256Hex(std::string_view text);
// Of a whole file, an empty one too. NOT_FOUND or UNAVAILABLE naming the path.
Result<std::string> Sha256HexOfFile(const std::string& path);

}  // namespace pergola::formats
