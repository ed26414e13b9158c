// What the serving commands do between their flags and their end: load, answer, reload, drain.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/served_model.h"
#include "cli/model_location.h"
#include "cli/serve_flags.h"
#include "core/signals.h"
#include "gateway/http_server.h"
#include "gateway/routes.h"

namespace pergola::cli {

// Ends the program at a stop signal while it lives: what is loaded or fetched loses nothing, and
// may take long.
class StopWhileLoading {
 public:
  explicit StopWhileLoading(SignalWaiter& signals);
  ~StopWhileLoading();

 private:
  std::atomic<bool> loaded_ = false;
  std::thread thread_;
};

// Where the models of `flags` lie, pulled if they must be. INVALID_ARGUMENT: two of one name.
Result<std::vector<ModelLocation>> LocateModels(const ModelFlags& flags);
// The same, loaded; tells of each on stderr.
Result<std::vector<std::unique_ptr<api::ServedModel>>> OpenModels(
    const ModelFlags& flags, const api::ServedModelOptions& options);

// Adds the scheduler's metrics of each model, labelled with its name.
void AddSources(const std::vector<std::unique_ptr<api::ServedModel>>& models,
                gateway::Metrics* metrics);

// Routes of `models` as `flags` want them, and the server in front of them.
std::shared_ptr<gateway::Routes> MakeRoutes(const HttpFlags& flags,
                                            std::vector<gateway::ServedModel> models,
                                            std::shared_ptr<gateway::Metrics> metrics);
Result<std::unique_ptr<gateway::HttpServer>> StartHttp(
    const HttpFlags& flags, const std::shared_ptr<gateway::Routes>& routes);

// A server that answers.
struct Running {
  std::vector<std::string> addresses;  // told on stderr
  std::function<void()> reload;        // at SIGHUP; may be empty
  // Takes nothing new and finishes what is in work; false when something was cut off.
  std::function<bool(std::chrono::milliseconds)> drain;
};

// Waits for a stop signal, then drains; a second one ends the program. Returns the exit code.
int RunUntilStopped(SignalWaiter& signals, const Running& running, double drain_timeout_s);

// The same for an HTTP server, which rereads its keys at SIGHUP.
int RunHttpUntilStopped(SignalWaiter& signals, const HttpFlags& flags, gateway::HttpServer& server,
                        double drain_timeout_s);

}  // namespace pergola::cli
