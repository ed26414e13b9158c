// Text of systemd units for the serving commands.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"

namespace pergola::cli {

struct ServiceUnit {
  std::string command = "serve";       // or "server", "gateway"
  std::string binary;                  // absolute path
  std::vector<std::string> arguments;  // after the command
  // What the file of --config says of --drain-timeout, when it is there to be read; empty: nothing.
  std::string configured_drain_timeout = {};
  // For systemd --user: runs as whoever it belongs to. Else for the system: as a user that systemd
  // makes, which sees the file system read-only and keeps models in /var/lib/pergola.
  bool of_user = false;
};

// "pergola-serve.service".
std::string UnitFileName(const ServiceUnit& unit);
// The last of the arguments with that name, "--name value" or "--name=value"; empty: none.
std::string ArgumentOf(const std::vector<std::string>& arguments, std::string_view name);
// INVALID_ARGUMENT: a line break or a NUL in a word, or a binary that is not an absolute path.
Result<std::string> UnitText(const ServiceUnit& unit);

// A word of ExecStart= that systemd reads as `word`: quoted where needed, specifiers and variables
// not expanded.
std::string QuotedForSystemd(std::string_view word);

// Writes `text` to `path` whole or not at all, with its folders; nothing when it is so already.
// ALREADY_EXISTS: another text is there and `replace` is not set.
// INTERNAL: the system's reason.
Status WriteUnit(const std::filesystem::path& path, const std::string& text, bool replace);

}  // namespace pergola::cli
