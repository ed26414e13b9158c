// Flags that the serving commands share: `serve`, `server`, `gateway`.
//
//   auto flags = std::make_shared<MyFlags>();
//   AddComputeFlags(*command, flags->compute);
//   CompleteServing(*command, run, [flags](const SetAgain&) { return RunMine(*flags); });
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/served_model.h"
#include "cli/command_line.h"
#include "gateway/http_server.h"
#include "gateway/routes.h"
#include "text/text_settings.h"

namespace pergola::cli {

inline constexpr int64_t kDefaultCacheMib = 64;
inline constexpr int64_t kDefaultCacheFileMib = 1024;

struct ModelFlags {
  std::vector<std::string> models = {"all-MiniLM-L6-v2"};
  std::vector<std::string> adapters;  // NAME=FOLDER or MODEL:NAME=FOLDER each
  bool offline = false;
};

// What is said of texts in place of the models' files.
struct TextFlags {
  std::string default_prompt_name;
  std::vector<std::string> prompts;  // NAME=TEXT each
  std::string pair_instruction;
};

struct EngineFlags {
  int threads = 0;
  std::string activations = "auto";
  std::string weights = "auto";
  int64_t step_tokens = 0;
  int64_t cache_mib = kDefaultCacheMib;
  std::string cache_file;
  int64_t cache_file_mib = kDefaultCacheFileMib;
  int64_t max_queued_tokens = 1 << 20;
  int64_t max_promised_mib = 2048;
};

// Of a process that computes: `serve` and `server`.
struct ComputeFlags {
  ModelFlags model;
  TextFlags text;
  EngineFlags engine;
  double drain_timeout_s = 30;
};

// Which models are in memory.
struct ResidencyFlags {
  std::string keep_alive = "-1";  // as service::ParseKeepAlive takes it
  int64_t memory_budget_bytes = 0;
  bool load_on_demand = false;
};

struct HttpFlags {
  gateway::HttpServerOptions server;
  gateway::RoutesOptions routes;
  double request_timeout_s = 60;
  double keepalive_timeout_s = 75;
  bool access_log = false;
  std::string otlp_endpoint;
};

void AddModelFlags(CLI::App& command, ModelFlags& flags);
void AddTextFlags(CLI::App& command, TextFlags& flags);
void AddComputeFlags(CLI::App& command, ComputeFlags& flags);
void AddResidencyFlags(CLI::App& command, ResidencyFlags& flags);
void AddHostFlags(CLI::App& command, std::vector<std::string>& hosts, int& port);
void AddHttpFlags(CLI::App& command, HttpFlags& flags);
void AddCacheFlag(CLI::App& command, int64_t& cache_mib);
void AddCacheFileFlags(CLI::App& command, std::string& cache_file, int64_t& cache_file_mib);
// What a log should hold about the cache file.
void TellOfCacheFile(const std::string& line);
void AddPromisedFlag(CLI::App& command, int64_t& max_promised_mib);
void AddOtlpFlag(CLI::App& command, std::string& otlp_endpoint);
void AddDrainFlag(CLI::App& command, double& drain_timeout_s);
// An option of seconds, from `shortest` to what every clock can count.
void AddSecondsFlag(CLI::App& command, const std::string& names, double& seconds, double shortest,
                    const std::string& help);

// Gives the options of a new CLI::App, which has the same flags, the values of the command line and
// the environment at the start and of the configuration file as it is now. INVALID_ARGUMENT saying
// what is wrong with the file. Thread-safe.
using SetAgain = std::function<Status(CLI::App& app)>;

// After the last of a command's flags: --config, a variable for every option (--max-body-bytes:
// PERGOLA_MAX_BODY_BYTES), and `*run` when it is parsed.
void CompleteServing(CLI::App& command, Run* run,
                     std::function<int(const SetAgain& set_again)> serve);

api::ServedModelOptions ServedOptions(const EngineFlags& engine);
// Tells on stderr of what is loaded and unloaded.
std::shared_ptr<api::ResidentModels> MakeResidents(const ResidencyFlags& flags);
text::TextSettings SettingsOf(const TextFlags& flags);

std::chrono::milliseconds Seconds(double seconds);

}  // namespace pergola::cli
