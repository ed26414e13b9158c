#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/service_unit.h"
#include "cli/status_exit.h"

namespace pergola::cli {
namespace {

struct ServiceFlags {
  std::string action;
  ServiceUnit unit;
  std::string unit_dir;
  bool dry_run = false;
  bool force = false;
};

// Where systemd looks for units that an administrator or a user makes. NOT_FOUND: no home folder.
Result<std::filesystem::path> UnitFolder(const ServiceFlags& flags) {
  if (!flags.unit_dir.empty()) return std::filesystem::path(flags.unit_dir);
  if (!flags.unit.of_user) return std::filesystem::path("/etc/systemd/system");
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return std::filesystem::path(config) / "systemd/user";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return NotFoundError("HOME is not set; give --unit-dir");
  return std::filesystem::path(home) / ".config/systemd/user";
}

int RunService(ServiceFlags flags) {
  if (flags.unit.binary.empty()) {
    std::error_code error;
    flags.unit.binary = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) return Fail(InternalError("cannot find this program: " + error.message()));
  }
  if (const std::string config = ArgumentOf(flags.unit.arguments, "--config"); !config.empty()) {
    flags.unit.configured_drain_timeout =
        ConfiguredValue(config, "drain-timeout").value_or(std::string());
  }
  const Result<std::string> text = UnitText(flags.unit);
  if (!text.ok()) return Fail(text.status());
  if (flags.dry_run) {
    std::fputs(text->c_str(), stdout);
    return kExitOk;
  }
  const Result<std::filesystem::path> folder = UnitFolder(flags);
  if (!folder.ok()) return Fail(folder.status());
  const std::filesystem::path path = *folder / UnitFileName(flags.unit);
  if (const Status status = WriteUnit(path, *text, flags.force); !status.ok()) return Fail(status);
  const char* systemctl = flags.unit.of_user ? "systemctl --user" : "systemctl";
  std::printf("%s\nStart it:\n  %s daemon-reload\n  %s enable --now %s\n", path.c_str(), systemctl,
              systemctl, UnitFileName(flags.unit).c_str());
  return kExitOk;
}

}  // namespace

void AddService(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("service", "Write a systemd unit for a serving command");
  command->footer(
      "What follows -- are the flags of the serving command. Starts nothing: it prints how.\n"
      "  pergola service install serve --user -- --model all-MiniLM-L6-v2\n"
      "  sudo pergola service install gateway -- --config /etc/pergola/gateway.toml");
  auto flags = std::make_shared<ServiceFlags>();
  command->add_option("action", flags->action, "install")
      ->required()
      ->check(CLI::IsMember({"install"}));
  command->add_option("command", flags->unit.command, "serve, server or gateway")
      ->required()
      ->check(CLI::IsMember({"serve", "server", "gateway"}));
  command->add_option("arguments", flags->unit.arguments, "After --: flags of the command");
  command->add_flag("--user,!--system", flags->unit.of_user,
                    "Yours (systemctl --user); default: the system's");
  command->add_flag("--dry-run", flags->dry_run, "Print the unit, write nothing");
  command->add_flag("--force", flags->force, "Replace a unit that differs");
  command->add_option("--binary", flags->unit.binary, "Program to run (default: this one)");
  command->add_option("--unit-dir", flags->unit_dir,
                      "Folder to write to (default: where systemd looks)");
  command->callback([flags, run] { *run = [flags] { return RunService(*flags); }; });
}

}  // namespace pergola::cli
