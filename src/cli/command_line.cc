#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/status_exit.h"

namespace pergola::cli {
namespace {

// What stdio still holds is part of the work: a full disk is no success.
int FinishStdout(int code) {
  const int before = errno;  // of a write that failed and ended the run
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const int reason = errno != 0 ? errno : before;
  if (code != kExitOk) return code;
  if (reason == EPIPE) return Fail(UnavailableError("nobody reads stdout any more"));
  return Fail(InternalError("cannot write 'stdout': " + std::string(std::strerror(reason))));
}

bool IsUnknownCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  return app.get_subcommands([&](const CLI::App* sub) { return sub->check_name(argv[1]); }).empty();
}

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app("pergola: text to vectors, from the shell and over HTTP");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 some input lines were bad and "
      "skipped,\n"
      "4 a model or a server cannot be reached.\n"
      "'pergola COMMAND --help' tells more, docs/cli.md everything.");
  Run run;
  AddEmbed(app, &run);
  AddServe(app, &run);
  AddServer(app, &run);
  AddGateway(app, &run);
  AddRouter(app, &run);
  AddPredict(app, &run);
  AddSlice(app, &run);
  AddPublish(app, &run);
  AddQuantize(app, &run);
  AddPull(app, &run);
  AddModels(app, &run);
  AddTokenize(app, &run);
  AddInspect(app, &run);
  AddCompletion(app, &run);
  AddDoctor(app, &run);
  AddBench(app, &run);
  AddCompare(app, &run);
  AddEval(app, &run);
  AddService(app, &run);
  AddVersion(app, &run);
  std::signal(SIGPIPE, SIG_IGN);  // seen as an error of the write
  if (IsUnknownCommand(app, argc, argv)) {
    std::fprintf(stderr, "pergola: unknown command '%s'; 'pergola --help' lists them\n", argv[1]);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::FileError& error) {
    return Fail(NotFoundError(error.what()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? FinishStdout(kExitOk) : kExitUsage;
  }
  return run ? FinishStdout(run()) : kExitUsage;
}

}  // namespace pergola::cli
