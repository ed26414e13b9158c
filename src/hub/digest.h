// Checksums of files, streamed so that a file of any size costs 1 MiB of memory.
//
//   PERGOLA_ASSIGN_OR_RETURN(std::string hex, Sha256OfFile(path));
//
// Digests are lower-case hexadecimal.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::hub {

// SHA-256 of the file's bytes. NOT_FOUND or INTERNAL with the path and the system's reason.
Result<std::string> Sha256OfFile(const std::filesystem::path& path);

// The SHA-1 that Git gives the file as a blob: what the hub states for files outside large-file
// storage. It guards against damage, not against an attacker.
Result<std::string> GitBlobSha1OfFile(const std::filesystem::path& path);

// The same of bytes.
std::string GitBlobSha1(std::string_view bytes);

// SHA-256 of `bytes`.
std::string Sha256(std::string_view bytes);

}  // namespace pergola::hub
