#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/completion_script.h"
#include "cli/status_exit.h"

namespace pergola::cli {

void AddCompletion(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("completion", "Print a shell's completion script");
  command->footer(
      "  bash: source <(pergola completion bash)\n"
      "  zsh:  source <(pergola completion zsh)\n"
      "  fish: pergola completion fish | source");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, run, &app] {
    *run = [shell, &app] {
      const Result<std::string> script = CompletionScript(app, *shell);
      if (!script.ok()) return Fail(script.status());
      std::fputs(script->c_str(), stdout);
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace pergola::cli
