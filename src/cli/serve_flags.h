// Flags that the serving commands share: `serve`, `server`, `gateway`.
//
//   auto flags = std::make_shared<MyFlags>();
//   AddModelFlags(*command, flags->model);
//   CompleteServing(*command, run, [flags] { return RunMine(*flags); });
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/served_model.h"
#include "cli/command_line.h"
#include "gateway/http_server.h"
#include "gateway/routes.h"

namespace pergola::cli {

struct ModelFlags {
  std::vector<std::string> models = {"all-MiniLM-L6-v2"};
  bool offline = false;
  std::string default_prompt_name;
};

struct EngineFlags {
  int threads = 0;
  std::string activations = "auto";
  std::string weights = "auto";
  int64_t step_tokens = 0;
  int64_t cache_mib = 64;
  int64_t max_queued_tokens = 1 << 20;
};

struct HttpFlags {
  gateway::HttpServerOptions server;
  gateway::RoutesOptions routes;
  int64_t max_promised_mib = 2048;
  double request_timeout_s = 60;
  double keepalive_timeout_s = 75;
  bool access_log = false;
};

void AddModelFlags(CLI::App& command, ModelFlags& flags);
void AddEngineFlags(CLI::App& command, EngineFlags& flags);
void AddHostFlags(CLI::App& command, std::vector<std::string>& hosts, int& port);
void AddHttpFlags(CLI::App& command, HttpFlags& flags);
void AddPromisedFlag(CLI::App& command, int64_t& max_promised_mib);
// An option of seconds, from `shortest` to what every clock can count.
void AddSecondsFlag(CLI::App& command, const std::string& names, double& seconds, double shortest,
                    const std::string& help);

// The last of a command's flags: --config and --drain-timeout, a variable for every option
// (--max-body-bytes: PERGOLA_MAX_BODY_BYTES), and `*run` when it is parsed.
void CompleteServing(CLI::App& command, double& drain_timeout_s, Run* run,
                     std::function<int()> serve);

api::ServedModelOptions ServedOptions(const ModelFlags& model, const EngineFlags& engine,
                                      int64_t max_promised_mib);

std::chrono::milliseconds Seconds(double seconds);

}  // namespace pergola::cli
