#include "cli/command_line.h"

#include <CLI/CLI.hpp>

namespace pergola::cli {

int Main(int argc, char** argv) {
  CLI::App app("pergola: text to vectors, from the shell and over HTTP");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 some input lines were bad and skipped,\n"
      "4 a model or a server cannot be reached.\n"
      "'pergola COMMAND --help' tells more, docs/cli.md everything.");
  Run run;
  AddEmbed(app, &run);
  AddServe(app, &run);
  AddPull(app, &run);
  AddModels(app, &run);
  AddTokenize(app, &run);
  AddInspect(app, &run);
  AddCompletion(app, &run);
  AddDoctor(app, &run);
  AddVersion(app, &run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kExitOk : kExitUsage;
  }
  return run ? run() : kExitUsage;
}

}  // namespace pergola::cli
