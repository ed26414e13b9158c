#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command_line.h"

namespace pergola::cli {

void AddVersion(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->callback([run] {
    *run = [] {
      std::puts("pergola " PERGOLA_VERSION);
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace pergola::cli
