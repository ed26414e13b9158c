#include "cli/completion_script.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "hub/registry.h"

namespace pergola::cli {
namespace {

// What a subcommand's words are completed with.
struct CommandWords {
  std::string name;
  std::string description;
  std::vector<const CLI::Option*> options;
};

std::vector<CommandWords> Commands(const CLI::App& app) {
  std::vector<CommandWords> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandWords words{command->get_name(), command->get_description(), {}};
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_lnames().empty()) words.options.push_back(option);
    }
    commands.push_back(std::move(words));
  }
  return commands;
}

std::string ModelNames() {
  std::string names;
  for (const hub::RegistryModel& model : hub::RegistryModels()) {
    names += (names.empty() ? "" : " ") + std::string(model.name);
  }
  return names;
}

// --normalize and --no-normalize are two names of one flag.
std::string LongNames(const CommandWords& command) {
  std::string names;
  for (const CLI::Option* option : command.options) {
    for (const std::string& name : option->get_lnames()) {
      names += (names.empty() ? "--" : " --") + name;
    }
  }
  return names;
}

// The words of a {a,b} check, such as "jsonl npy f32"; empty when the option takes anything.
std::string Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return "";
  std::string words = type.substr(open + 1, close - open - 1);
  for (char& c : words) {
    if (c == ',') c = ' ';
  }
  return words;
}

std::string Bash(const std::vector<CommandWords>& commands) {
  std::string names;
  std::string options;
  std::string values;
  for (const CommandWords& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    options += "    " + command.name + ") options='" + LongNames(command) + "' ;;\n";
    for (const CLI::Option* option : command.options) {
      const std::string choices = Choices(*option);
      if (choices.empty()) continue;
      values += "    " + command.name + ":--" + option->get_lnames()[0] + ") words='" + choices +
                "' ;;\n";
    }
  }
  return "_pergola() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command=${COMP_WORDS[1]} options='' words=''\n"
         "  local models='" +
         ModelNames() +
         "'\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         " --help' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case $command:$previous in\n"
         "    *:--model|*:-m|pull:pull|models:rm) words=$models ;;\n"
         "    service:service) words=install ;;\n"
         "    service:install) words='serve server gateway' ;;\n" +
         values +
         "  esac\n"
         "  case $command in\n" +
         options +
         "  esac\n"
         "  if [ -n \"$words\" ]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  elif [ \"${current#-}\" != \"$current\" ]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         // Files where nothing else is known.
         "complete -o default -F _pergola pergola\n";
}

// In single quotes for fish.
std::string FishQuoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string Fish(const std::vector<CommandWords>& commands) {
  std::string script;
  for (const CommandWords& command : commands) {
    script += "complete -c pergola -n __fish_use_subcommand -f -a " + command.name + " -d " +
              FishQuoted(command.description) + "\n";
    const std::string condition = "-n '__fish_seen_subcommand_from " + command.name + "'";
    if (command.name == "pull") {
      script += "complete -c pergola " + condition + " -f -a " + FishQuoted(ModelNames()) + "\n";
    }
    for (const CLI::Option* option : command.options) {
      for (const std::string& name : option->get_lnames()) {
        const std::string words = name == "model" ? ModelNames() : Choices(*option);
        script += "complete -c pergola " + condition + " -l " + name + " -d " +
                  FishQuoted(option->get_description());
        if (!words.empty()) script += " -x -a " + FishQuoted(words);
        script += "\n";
      }
    }
  }
  return script;
}

}  // namespace

Result<std::string> CompletionScript(const CLI::App& app, std::string_view shell) {
  const std::vector<CommandWords> commands = Commands(app);
  if (shell == "bash") return Bash(commands);
  if (shell == "zsh") {
    return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" +
           Bash(commands);
  }
  if (shell == "fish") return Fish(commands);
  return InvalidArgumentError("no completion for '" + std::string(shell) +
                              "': bash, zsh and fish are known");
}

}  // namespace pergola::cli
