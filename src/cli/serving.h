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
#include "gateway/live_routes.h"
#include "gateway/routes.h"
#include "gateway/span_exporter.h"
#include "text/text_settings.h"

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

// Where the models of `flags` lie, pulled if they must be, and their adapters behind them.
// INVALID_ARGUMENT: two of one name, or an adapter of none of the models.
Result<std::vector<ModelLocation>> LocateModels(const ModelFlags& flags);
// The same, loaded; tells of each on stderr. A stop signal meanwhile ends the program. `residents`:
// null, or what unloads and loads them from now on.
Result<std::vector<std::unique_ptr<api::ServedModel>>> OpenModels(
    SignalWaiter& signals, const ComputeFlags& flags,
    std::shared_ptr<api::ResidentModels> residents = nullptr);

// Models as the gateway or a server (T) takes them, with texts as `flags` want them.
// INVALID_ARGUMENT naming the model whose files do not allow it.
template <typename T>
Result<std::vector<T>> OfferModels(std::vector<T> models, const TextFlags& flags) {
  for (T& model : models) {
    auto text = text::WithSettings(std::move(model.text), SettingsOf(flags));
    if (!text.ok()) return text.status().WithContext(model.info.id);
    model.text = std::move(*text);
  }
  return models;
}
template <typename T>
std::vector<T> Offered(const std::vector<std::unique_ptr<api::ServedModel>>& models) {
  std::vector<T> offered;
  for (const auto& model : models) {
    offered.push_back({model->service(), model->info(), model->text()});
  }
  return offered;
}

// Adds the scheduler's metrics of each model, labelled with its name.
void AddSources(const std::vector<std::unique_ptr<api::ServedModel>>& models,
                gateway::Metrics* metrics);

// Routes of `models` as `flags` want them. `cache_mib`: of --cache-mib.
std::unique_ptr<gateway::Routes> MakeRoutes(const HttpFlags& flags, int64_t cache_mib,
                                            std::vector<gateway::ServedModel> models,
                                            std::shared_ptr<gateway::Metrics> metrics);
// Sends spans to the collector at `endpoint`, "http://127.0.0.1:4318".
std::shared_ptr<gateway::SpanExporter> MakeSpanExporter(const std::string& service,
                                                        const std::string& endpoint);

// A server, and what its routes are installed in.
struct HttpFront {
  std::shared_ptr<gateway::Metrics> metrics;
  // Null without --otlp-endpoint. Second owners: metrics, the server's observer.
  std::shared_ptr<gateway::SpanExporter> exporter;
  std::shared_ptr<gateway::LiveRoutes> routes;  // second owner: the server
  std::unique_ptr<gateway::HttpServer> server;
};
// Without server. `service`: what traces call this process.
HttpFront MakeFront(const std::string& service, const HttpFlags& flags);
Status Listen(const HttpFlags& flags, HttpFront* front);

// A server that answers.
struct Running {
  std::vector<std::string> addresses;  // told on stderr
  std::function<void()> reload;        // at SIGHUP; may be empty
  // Takes nothing new and finishes what is in work; false when something was cut off.
  std::function<bool(std::chrono::milliseconds)> drain;
};

// Waits for a stop signal, then drains; a second one ends the program. Returns the exit code.
int RunUntilStopped(SignalWaiter& signals, const Running& running, double drain_timeout_s);

// Says on stderr that `what` was reread, or why not.
void TellReloaded(const Status& status, const char* what);

// The same for an HTTP server. At SIGHUP it rereads its keys, and `reload` the rest, if there is
// something to reread; what fails is told on stderr and changes nothing. `stopping`, if any, is
// called when it begins to drain.
int RunHttpUntilStopped(SignalWaiter& signals, gateway::HttpServer& server,
                        const std::function<Status()>& reload, double drain_timeout_s,
                        const std::function<void()>& stopping = nullptr);

}  // namespace pergola::cli
