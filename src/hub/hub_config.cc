#include "hub/hub_config.h"

#include <pwd.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>

#include "core/ascii.h"

namespace pergola::hub {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path DefaultHome() {
  std::string home = Environment("HOME");
  if (home.empty()) {
    const passwd* user = getpwuid(getuid());
    home = user == nullptr ? "/tmp" : user->pw_dir;
  }
  return std::filesystem::path(home) / ".cache" / "pergola";
}

}  // namespace

bool IsTruthy(const char* value) {
  const std::string lower = LowerCase(value == nullptr ? "" : value);
  return lower == "1" || lower == "true" || lower == "yes" || lower == "on";
}

HubConfig HubConfig::FromEnvironment() {
  HubConfig config;
  const std::string endpoint = Environment("HF_ENDPOINT");
  if (!endpoint.empty()) config.endpoint = endpoint;
  while (!config.endpoint.empty() && config.endpoint.back() == '/') config.endpoint.pop_back();
  config.token = Environment("HF_TOKEN");
  // Tokens that come from a file end with its line.
  while (!config.token.empty() && std::isspace(static_cast<unsigned char>(config.token.back()))) {
    config.token.pop_back();
  }
  config.offline =
      IsTruthy(std::getenv("PERGOLA_OFFLINE")) || IsTruthy(std::getenv("HF_HUB_OFFLINE"));
  const std::string home = Environment("PERGOLA_HOME");
  std::error_code ignored;
  config.home = home.empty() ? DefaultHome() : std::filesystem::absolute(home, ignored);
  return config;
}

}  // namespace pergola::hub
