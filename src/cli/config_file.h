// A TOML file in the place of flags: `port = 42666` says what `--port 42666` says.
//
// CLI11 reads configuration files for the whole program only, not for a subcommand, so this does.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pergola/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pergola::cli {

// Gives the options of `command` that have no value yet (neither flag nor environment) those of the
// file. Call it when the command is parsed. Throws, as CLI11 does from its callbacks,
// CLI::FileError when there is no such file and CLI::ConfigError for a key that is unknown or given
// twice, a section, or a value that the option refuses.
void ApplyConfigFile(CLI::App& command, const std::string& path);

// What the file gives for one option, before any check; nullopt: nothing, or there is no file that
// can be read as TOML.
std::optional<std::string> ConfiguredValue(const std::string& path, const std::string& name);

// Names and values of the options that have some: before ApplyConfigFile, those of the command line
// and the environment.
using GivenOptions = std::vector<std::pair<std::string, std::vector<std::string>>>;
GivenOptions ReadGivenOptions(const CLI::App& command);

// Gives a new `app` with the same options those values again, and then the file at `path` (empty:
// none) as it is now. INVALID_ARGUMENT: what ApplyConfigFile throws. `app` is of no use then.
Status SetOptionsAgain(CLI::App& app, const GivenOptions& given, const std::string& path);

// Kubernetes gives each container addresses of the services around it: next to one that is called
// "pergola", PERGOLA_PORT is "tcp://10.0.0.1:42666". Takes such a value of `variable` out of the
// environment and returns it; empty if the value is another one or there is none. Not thread-safe:
// for the program's start.
std::string DropServiceAddress(const char* variable);

}  // namespace pergola::cli
