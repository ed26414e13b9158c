#include "cli/config_file.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace pergola::cli {
namespace {

CLI::ConfigError Bad(const std::string& path, const std::string& message) {
  return {path + ": " + message, CLI::ExitCodes::ConfigError};
}

void SetOption(CLI::Option* option, const CLI::ConfigItem& item) {
  if (option->get_expected_min() == 0) {  // a flag
    option->add_result(option->get_flag_value(item.name, CLI::ConfigTOML().to_flag(item)));
  } else {
    option->add_result(item.inputs);
  }
  option->run_callback();
}

}  // namespace

void ApplyConfigFile(CLI::App& command, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw CLI::FileError::Missing(path);
  std::set<std::string> seen;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(path)) {
    if (!item.parents.empty()) throw Bad(path, "no section is known: '" + item.fullname() + "'");
    CLI::Option* option = command.get_option_no_throw("--" + item.name);
    if (option == nullptr || !option->get_configurable()) {
      throw Bad(path, "no option is called '" + item.name + "'");
    }
    if (!seen.insert(item.name).second) throw Bad(path, "'" + item.name + "' is given twice");
    if (option->count() > 0) continue;
    try {
      SetOption(option, item);
    } catch (const CLI::ParseError& error) {
      throw Bad(path, error.what());
    }
  }
}

std::optional<std::string> ConfiguredValue(const std::string& path, const std::string& name) {
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(path)) {
      if (item.parents.empty() && item.name == name && item.inputs.size() == 1) {
        return item.inputs[0];
      }
    }
  } catch (const CLI::Error&) {
    // Whoever serves with it says what is wrong.
  }
  return std::nullopt;
}

GivenOptions ReadGivenOptions(const CLI::App& command) {
  GivenOptions given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0 && option->get_configurable()) {
      given.emplace_back(option->get_name(), option->results());
    }
  }
  return given;
}

Status SetOptionsAgain(CLI::App& app, const GivenOptions& given, const std::string& path) {
  try {
    for (const auto& [name, values] : given) {
      CLI::Option* option = app.get_option(name);
      option->add_result(values);
      option->run_callback();
    }
    if (!path.empty()) ApplyConfigFile(app, path);
  } catch (const CLI::Error& error) {
    return InvalidArgumentError(error.what());
  }
  return OkStatus();
}

std::string DropServiceAddress(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || !std::string_view(value).starts_with("tcp://")) return {};
  std::string address = value;
  ::unsetenv(variable);
  return address;
}

}  // namespace pergola::cli
