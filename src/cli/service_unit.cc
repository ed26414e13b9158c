#include "cli/service_unit.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

namespace pergola::cli {
namespace {

// Of the system's units: the service sees the file system read-only but for its state, and gets no
// rights by any program it might start.
constexpr std::string_view kConfinement =
    "User=pergola\n"
    "DynamicUser=yes\n"
    "StateDirectory=pergola\n"
    "Environment=PERGOLA_HOME=/var/lib/pergola\n"
    "ProtectSystem=strict\n"
    "ProtectHome=read-only\n"
    "PrivateDevices=yes\n"
    "ProtectClock=yes\n"
    "ProtectControlGroups=yes\n"
    "ProtectKernelLogs=yes\n"
    "ProtectKernelModules=yes\n"
    "ProtectKernelTunables=yes\n"
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK\n"
    "RestrictNamespaces=yes\n"
    "RestrictRealtime=yes\n"
    "LockPersonality=yes\n"
    "SystemCallArchitectures=native\n"
    "CapabilityBoundingSet=\n"
    "UMask=0077\n";

std::string_view Description(const std::string& command) {
  if (command == "server") return "Pergola inference server (gRPC)";
  if (command == "gateway") return "Pergola gateway (HTTP)";
  return "Pergola embedding server (HTTP)";
}

// How long systemd waits before it kills: the time of --drain-timeout, from the arguments or else
// the configuration file, and some for the rest of the way out.
int64_t StopSeconds(const ServiceUnit& unit) {
  constexpr int64_t kRest = 15;
  double drain = 30;
  for (const std::string& value :
       {unit.configured_drain_timeout, ArgumentOf(unit.arguments, "--drain-timeout")}) {
    if (value.empty()) continue;
    const double given = std::strtod(value.c_str(), nullptr);
    if (given >= 0 && given <= 1e6) drain = given;  // else the command refuses it
  }
  return static_cast<int64_t>(std::ceil(drain)) + kRest;
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./:,=@+").find(c) != std::string_view::npos;
}

}  // namespace

std::string ArgumentOf(const std::vector<std::string>& arguments, std::string_view name) {
  std::string found;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == name && i + 1 < arguments.size()) found = arguments[i + 1];
    if (word.starts_with(std::string(name) + "=")) found = word.substr(name.size() + 1);
  }
  return found;
}

std::string QuotedForSystemd(std::string_view word) {
  bool plain = !word.empty();
  std::string text;
  for (const char c : word) {
    plain = plain && IsPlain(c);
    if (c == '%' || c == '$') text += c;  // doubled
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return plain ? text : "\"" + text + "\"";
}

std::string UnitFileName(const ServiceUnit& unit) { return "pergola-" + unit.command + ".service"; }

Result<std::string> UnitText(const ServiceUnit& unit) {
  if (!unit.binary.starts_with('/')) {
    return InvalidArgumentError("'" + unit.binary + "' is not an absolute path");
  }
  std::string line = QuotedForSystemd(unit.binary) + " " + unit.command;
  for (const std::string& argument : unit.arguments) line += " " + QuotedForSystemd(argument);
  if (line.find_first_of(std::string_view("\n\r\0", 3)) != std::string::npos) {
    return InvalidArgumentError("a line break in an argument: a unit cannot hold it");
  }
  std::string text = "[Unit]\nDescription=" + std::string(Description(unit.command)) + "\n";
  // A user's manager has no network target.
  if (!unit.of_user) text += "Wants=network-online.target\nAfter=network-online.target\n";
  text += "\n[Service]\nType=exec\nExecStart=" + line +
          "\n"
          "ExecReload=/bin/kill -HUP $MAINPID\n"
          "Restart=on-failure\n"
          "RestartSec=2\n"
          // A wrong command line stays wrong.
          "RestartPreventExitStatus=2\n"
          "# Above --drain-timeout: raise it with a longer one in the configuration file.\n"
          "TimeoutStopSec=" +
          std::to_string(StopSeconds(unit)) +
          "\n"
          "LimitNOFILE=65536\n"
          "NoNewPrivileges=yes\n"
          "PrivateTmp=yes\n";
  if (!unit.of_user) text += kConfinement;
  return text + "\n[Install]\nWantedBy=" + (unit.of_user ? "default" : "multi-user") + ".target\n";
}

Status WriteUnit(const std::filesystem::path& path, const std::string& text, bool replace) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    std::ostringstream there;
    there << std::ifstream(path, std::ios::binary).rdbuf();
    if (there.str() == text) return OkStatus();
    if (!replace) {
      return AlreadyExistsError("'" + path.string() +
                                "' is there and differs; --force replaces it");
    }
  }
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return InternalError("cannot make '" + path.parent_path().string() + "': " + error.message());
  }
  const std::filesystem::path unfinished = path.string() + ".part";
  std::ofstream file(unfinished, std::ios::binary);
  file << text;
  file.close();
  if (file.fail()) {
    std::filesystem::remove(unfinished, error);
    return InternalError("cannot write '" + unfinished.string() + "'");
  }
  std::filesystem::rename(unfinished, path, error);
  if (error) return InternalError("cannot write '" + path.string() + "': " + error.message());
  return OkStatus();
}

}  // namespace pergola::cli
