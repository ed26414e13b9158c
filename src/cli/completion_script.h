// Shell completion, made from the registered subcommands and flags, so that it cannot fall behind
// them.
#pragma once

#include <string>
#include <string_view>

#include "pergola/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pergola::cli {

// The script for "bash", "zsh" or "fish". INVALID_ARGUMENT: another shell.
Result<std::string> CompletionScript(const CLI::App& app, std::string_view shell);

}  // namespace pergola::cli
