// The command line: `pergola <subcommand> ...`. One file cmd_<name>.cc per subcommand registers its
// flags and runs; this is their list.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace pergola::cli {

// Exit codes, also in `pergola --help` and docs/cli.md.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,      // the work failed: the message says why
  kExitUsage = 2,        // the command line is wrong
  kExitBadInput = 3,     // some input lines were bad and skipped
  kExitUnavailable = 4,  // a model or a server cannot be reached
};

// Parses, runs one subcommand, returns its exit code. Prints errors to stderr.
int Main(int argc, char** argv);

// Each adds its subcommand to `app`; when chosen, `*run` becomes what runs it, to an exit code.
using Run = std::function<int()>;
void AddEmbed(CLI::App& app, Run* run);
void AddServe(CLI::App& app, Run* run);
void AddServer(CLI::App& app, Run* run);
void AddGateway(CLI::App& app, Run* run);
void AddRouter(CLI::App& app, Run* run);
void AddPredict(CLI::App& app, Run* run);
void AddSlice(CLI::App& app, Run* run);
void AddPublish(CLI::App& app, Run* run);
void AddQuantize(CLI::App& app, Run* run);
void AddPull(CLI::App& app, Run* run);
void AddModels(CLI::App& app, Run* run);
void AddTokenize(CLI::App& app, Run* run);
void AddInspect(CLI::App& app, Run* run);
void AddDoctor(CLI::App& app, Run* run);
void AddBench(CLI::App& app, Run* run);
void AddBenchServer(CLI::App& bench, Run* run);  // below it
void AddCompare(CLI::App& app, Run* run);
void AddEval(CLI::App& app, Run* run);
void AddCompletion(CLI::App& app, Run* run);
void AddService(CLI::App& app, Run* run);
void AddVersion(CLI::App& app, Run* run);

}  // namespace pergola::cli
