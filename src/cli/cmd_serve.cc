#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/served_model.h"
#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/json_text.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/serve_part.h"
#include "cli/status_exit.h"
#include "core/process_memory.h"
#include "core/signals.h"
#include "gateway/http_server.h"
#include "gateway/routes.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

struct ServeFlags {
  std::vector<std::string> models = {"all-MiniLM-L6-v2"};
  bool offline = false;
  int threads = 0;
  std::string activations = "auto";
  std::string weights = "auto";
  int64_t step_tokens = 0;
  int64_t cache_mib = 64;
  int64_t max_queued_tokens = 1 << 20;
  int64_t max_promised_mib = 2048;
  std::string default_prompt_name;
  double request_timeout_s = 60;
  double keepalive_timeout_s = 75;
  double drain_timeout_s = 30;
  bool access_log = false;
  std::string config;
  PartFlags part;
  gateway::HttpServerOptions server;
  gateway::RoutesOptions routes;
};

constexpr int64_t kMost = int64_t{1} << 40;

// From `shortest` to what every clock can count. Not CLI::Range: it takes "nan".
CLI::Validator SecondsFrom(double shortest) {
  return CLI::Validator(
      [shortest](std::string& text) {
        constexpr double kLongest = 1e6;
        double seconds = 0;
        const bool right =
            CLI::detail::lexical_cast(text, seconds) && seconds >= shortest && seconds <= kLongest;
        return right ? std::string() : "'" + text + "' is not a number of seconds in range";
      },
      "");
}

milliseconds Seconds(double seconds) {
  return duration_cast<milliseconds>(std::chrono::duration<double>(seconds));
}

api::ServedModelOptions ModelOptions(const ServeFlags& flags) {
  api::ServedModelOptions options;
  options.model.ops.num_threads = flags.threads;
  if (flags.activations == "f32") options.model.activations = kernels::ActivationPrecision::kF32;
  options.model.weights = *kernels::ParseWeightType(flags.weights);  // checked by the flag
  options.scheduler.batching.step_tokens = flags.step_tokens;
  // PERGOLA_BATCH_LOOKAHEAD=0: strictly first come first served.
  if (const char* lookahead = std::getenv("PERGOLA_BATCH_LOOKAHEAD")) {
    options.scheduler.batching.lookahead = std::max(0L, std::strtol(lookahead, nullptr, 10));
  }
  options.scheduler.cache_bytes = static_cast<size_t>(flags.cache_mib) << 20;
  options.scheduler.single_flight = flags.cache_mib > 0;
  options.scheduler.max_queued_tokens = flags.max_queued_tokens;
  options.scheduler.max_promised_bytes = flags.max_promised_mib << 20;
  options.default_prompt_name = flags.default_prompt_name;
  return options;
}

Result<std::vector<std::unique_ptr<api::ServedModel>>> OpenModels(const ServeFlags& flags) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  std::vector<std::unique_ptr<api::ServedModel>> models;
  for (const std::string& name : flags.models) {
    PullDisplay display(name, /*quiet=*/false);
    Result<ModelLocation> location = ResolveModel(name, hub, display);
    display.Finish();
    if (!location.ok()) return location.status();
    Result<std::unique_ptr<api::ServedModel>> model =
        api::ServedModel::Open(location->id, location->path.string(), ModelOptions(flags));
    if (!model.ok()) return model.status().WithContext(name);
    for (const auto& other : models) {
      if (other->info().id == (*model)->info().id) {
        return InvalidArgumentError("two models are called '" + other->info().id + "'");
      }
    }
    models.push_back(std::move(*model));
  }
  return models;
}

// Ends the program at a stop signal: what is loaded or fetched loses nothing, and may take long.
class StopWhileLoading {
 public:
  explicit StopWhileLoading(SignalWaiter& signals) {
    thread_ = std::thread([this, &signals] {
      while (signals.Wait() == Signal::kReload) {
        if (loaded_) return;
      }
      std::fprintf(stderr, "stopped\n");
      std::_Exit(kExitOk);
    });
  }
  ~StopWhileLoading() {
    loaded_ = true;
    pthread_kill(thread_.native_handle(), SIGHUP);  // to this thread alone: ends its wait
    thread_.join();
  }

 private:
  std::atomic<bool> loaded_ = false;
  std::thread thread_;
};

// One JSON object a line on stderr; no text of users, no key.
void LogAccess(const gateway::RequestLog& log) {
  const double elapsed_ms = std::chrono::duration<double, std::milli>(log.duration).count();
  std::fprintf(stderr,
               "{\"request_id\":%s,\"peer\":%s,\"method\":%s,\"route\":%s,\"status\":%d,"
               "\"ms\":%.3f,\"received_bytes\":%llu,\"sent_bytes\":%llu,\"api_key\":%d}\n",
               JsonString(log.request_id).c_str(), JsonString(log.peer).c_str(),
               JsonString(log.method).c_str(), JsonString(log.route).c_str(), log.status,
               elapsed_ms, static_cast<unsigned long long>(log.received_bytes),
               static_cast<unsigned long long>(log.sent_bytes), log.api_key);
}

std::shared_ptr<gateway::Routes> MakeRoutes(
    const ServeFlags& flags, const std::vector<std::unique_ptr<api::ServedModel>>& models) {
  gateway::RoutesOptions options = flags.routes;
  options.max_body_bytes = flags.server.max_body_bytes;
  options.open_metrics = flags.server.open_metrics;
  options.open_docs = flags.server.open_docs;
  options.default_timeout = Seconds(flags.request_timeout_s);
  options.metrics = std::make_shared<gateway::Metrics>();
  for (const auto& model : models) {
    options.models.push_back({model->service(), model->info(), model->text()});
    scheduler::Scheduler* scheduler = &model->scheduler();
    const std::string id = model->info().id;
    options.metrics->AddSource([scheduler, id] {
      std::vector<service::MetricSample> samples = scheduler->Metrics();
      for (service::MetricSample& sample : samples) sample.labels.emplace_back("model", id);
      return samples;
    });
  }
  return std::make_shared<gateway::Routes>(std::move(options));
}

Result<std::unique_ptr<gateway::HttpServer>> StartServer(
    const ServeFlags& flags, const std::shared_ptr<gateway::Routes>& routes) {
  gateway::HttpServerOptions options = flags.server;
  options.keepalive_timeout = Seconds(flags.keepalive_timeout_s);
  options.request_timeout = Seconds(flags.request_timeout_s);
  options.observer = [routes = std::weak_ptr(routes),
                      access_log = flags.access_log](const gateway::RequestLog& log) {
    if (const auto alive = routes.lock()) alive->metrics().CountRequest(log);
    if (access_log) LogAccess(log);
  };
  return gateway::HttpServer::Start(std::move(options), routes);
}

// Answers until a stop signal, then drains. A second stop signal ends the wait.
int ServeUntilStopped(const ServeFlags& flags, SignalWaiter& signals, gateway::HttpServer& server) {
  for (const std::string& address : server.addresses()) {
    std::fprintf(stderr, "listening on %s\n", address.c_str());
  }
  while (signals.Wait() == Signal::kReload) {
    if (const Status status = server.ReloadKeys(); !status.ok()) {
      std::fprintf(stderr, "pergola: keys not reloaded: %s\n", status.message().c_str());
    } else if (!flags.server.api_key_file.empty()) {
      std::fprintf(stderr, "keys reloaded\n");
    }
  }
  std::fprintf(stderr, "draining\n");
  std::thread([&signals] {
    while (signals.Wait() == Signal::kReload) {
    }
    std::_Exit(kExitFailure);
  }).detach();
  const bool drained = server.Drain(Seconds(flags.drain_timeout_s));
  if (!drained) std::fprintf(stderr, "pergola: requests were cut off after the drain timeout\n");
  return drained ? kExitOk : kExitFailure;
}

int RunServe(const ServeFlags& flags) {
  if (!flags.part.role.empty()) {
    return ServePart({flags.part, flags.models.front(), flags.server, flags.offline, flags.threads,
                      flags.activations == "f32"});
  }
  ReturnLargeBlocks();   // request bodies and answers come and go in bursts
  SignalWaiter signals;  // before any thread
  auto models = [&] {
    const StopWhileLoading stop(signals);
    return OpenModels(flags);
  }();
  if (!models.ok()) return Fail(models.status());
  for (const auto& model : *models) {
    const service::ModelInfo& info = model->info();
    std::fprintf(stderr, "%s: %s, %s, %lld values, up to %lld tokens, %s\n", info.id.c_str(),
                 info.architecture.c_str(), info.quantisation.c_str(),
                 static_cast<long long>(info.width(OutputKind::kEmbedding)),
                 static_cast<long long>(info.max_tokens), info.numeric_class.c_str());
  }
  const std::shared_ptr<gateway::Routes> routes = MakeRoutes(flags, *models);
  auto server = StartServer(flags, routes);
  if (!server.ok()) return Fail(server.status());
  const int code = ServeUntilStopped(flags, signals, **server);
  for (const auto& model : *models) model->scheduler().StopAccepting();
  server->reset();
  return code;
}

void AddModelFlags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option("-m,--model", flags.models,
                  "Registry name, hub id, directory or .gguf file; may be repeated")
      ->delimiter(',')
      ->capture_default_str();
  command.add_flag("--offline", flags.offline, "Fetch nothing: the model must be there");
  command.add_option("--threads", flags.threads, "Compute threads (0: one per usable core)")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--activations", flags.activations,
                  "auto, or f32: widen quantised weights (slower, the reference)")
      ->check(CLI::IsMember({"auto", "f32"}));
  command
      .add_option("--weights", flags.weights, "What matrices are computed in (auto: as they are)")
      ->check(CLI::IsMember({"auto", "as-is", "f32", "f16", "bf16", "int8", "int4"}));
  command.add_option("--default-prompt-name", flags.default_prompt_name,
                     "Prompt put before texts that ask for none");
  command.add_option("--step-tokens", flags.step_tokens, "Tokens of a batch (0: measured default)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  command.add_option("--cache-mib", flags.cache_mib, "Memory for finished rows (0: no cache)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
}

void AddListenFlags(CLI::App& command, ServeFlags& flags) {
  gateway::HttpServerOptions& server = flags.server;
  const CLI::Validator not_empty(
      [](std::string& text) { return text.empty() ? std::string("is empty") : std::string(); }, "");
  command.add_option("--host,--bind", server.hosts, "Addresses to listen on, IPv4 or IPv6")
      ->delimiter(',')
      ->check(not_empty);  // an empty name would listen on all addresses
  command.add_option("-p,--port", server.port, "Port (0: any free one, printed)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--unix-socket", server.unix_socket, "Also listen on this socket file");
  command.add_option("--tls-cert", server.tls_cert_file, "Certificate chain (PEM)");
  command.add_option("--tls-key", server.tls_key_file, "Private key (PEM)");
  command.add_option("--network-threads", server.network_threads)->check(CLI::Range(1, 256));
  command.add_option("--max-connections", server.max_connections)->check(CLI::Range(1, 1 << 20));
  command.add_option("--keepalive-timeout", flags.keepalive_timeout_s, "Seconds")
      ->check(SecondsFrom(0))
      ->capture_default_str();
  command
      .add_option("--keepalive-max-requests", server.keepalive_max_requests,
                  "Requests on one connection (0: no limit)")
      ->check(CLI::Range(int64_t{0}, kMost));
  command
      .add_option("--drain-timeout", flags.drain_timeout_s,
                  "Seconds that a stop waits for requests in work")
      ->check(SecondsFrom(0))
      ->capture_default_str();
  command.add_flag("--access-log", flags.access_log, "A JSON line per request on stderr");
}

void AddPolicyFlags(CLI::App& command, ServeFlags& flags) {
  gateway::HttpServerOptions& server = flags.server;
  gateway::RoutesOptions& routes = flags.routes;
  command.add_option("--api-key-file", server.api_key_file,
                     "Keys, one a line; reread on SIGHUP. Without: no keys needed");
  command.add_flag("--open-metrics", server.open_metrics, "/metrics needs no key");
  command.add_flag("--open-docs", server.open_docs, "/docs and /openapi.json need no key");
  command.add_option("--cors-origin", server.cors_origins, "Origins that browsers may call from")
      ->delimiter(',');
  const CLI::Range positive(int64_t{1}, kMost);
  command.add_option("--max-body-bytes", server.max_body_bytes)
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--max-bodies-bytes", server.body_budget_bytes,
                  "Memory for all request bodies together")
      ->check(positive);
  command.add_option("--max-batch-inputs", routes.max_batch_inputs, "Inputs of one request")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--max-queued-tokens", flags.max_queued_tokens,
                  "Beyond, requests are answered 429")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--max-promised-mib", flags.max_promised_mib,
                  "Memory for rows promised to requests in work")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command.add_option("--request-timeout", flags.request_timeout_s, "Seconds until 504")
      ->check(SecondsFrom(0.001))
      ->capture_default_str();
  command.add_flag("--strict-model", routes.strict_model,
                   "Refuse requests that name another model");
  command.add_flag("--allow-any-dimensions", routes.allow_any_dimensions,
                   "Also sizes that the model was not trained to be cut to");
}

void AddPartFlags(CLI::App& command, PartFlags& part) {
  command
      .add_option("--role", part.role,
                  "Serve a part of a language model as frames: embed (table and logits) or ffn")
      ->check(CLI::IsMember({"embed", "ffn"}));
  command.add_option("--layers", part.layers, "With --role ffn: layers, first-last");
  command.add_option("--frame-port", part.frame_port, "With --role: port of the frames (0: any)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
}

// Every option may also come from the environment: --max-body-bytes from PERGOLA_MAX_BODY_BYTES.
void NameEnvironment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    if (names.empty() || names[0] == "help" || names[0] == "config") continue;
    std::string variable = "PERGOLA_";
    for (const char letter : names[0]) {
      variable += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
    }
    option->envname(variable);
  }
}

}  // namespace

void AddServe(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP");
  command->footer(
      "Speaks the OpenAI, Ollama, TEI, Cohere, Jina, Voyage and Perplexity dialects; /docs lists\n"
      "the routes. Flags may also stand in a TOML file (--config) or in the environment, lists\n"
      "there with commas between. The command line wins, then the environment.\n"
      "SIGTERM finishes what is in work and exits 0; SIGHUP rereads the keys.\n"
      "  pergola serve --model all-MiniLM-L6-v2 --port 42666");
  auto flags = std::make_shared<ServeFlags>();
  command->add_option("--config", flags->config, "TOML file with these options")
      ->configurable(false);
  AddModelFlags(*command, *flags);
  AddListenFlags(*command, *flags);
  AddPolicyFlags(*command, *flags);
  AddPartFlags(*command, flags->part);
  NameEnvironment(*command);
  command->preparse_callback([](size_t) {
    const std::string address = DropServiceAddress("PERGOLA_PORT");
    if (address.empty()) return;
    std::fprintf(stderr, "PERGOLA_PORT=%s is a service's address, not a port: ignored\n",
                 address.c_str());
  });
  // When parsed, unlike a plain callback, leaves the environment alone for other commands.
  command->parse_complete_callback([command, flags, run] {
    if (!flags->config.empty()) ApplyConfigFile(*command, flags->config);
    *run = [flags] { return RunServe(*flags); };
  });
}

}  // namespace pergola::cli
